"""O21: the library's content follows from its seed, and totals are known."""

from __future__ import annotations

import pytest

from regente.services.sandbox import Catalogue
from tests.services.filters import filters


def test_the_same_seed_has_the_same_ads_and_another_seed_others() -> None:
    wanted = filters(end="2025-01-12")
    assert Catalogue(7).ads(wanted) == Catalogue(7).ads(wanted)
    assert Catalogue(7).ads(wanted) != Catalogue(8).ads(wanted)


@pytest.mark.parametrize("media", ["all", "video", "image"])
@pytest.mark.parametrize("languages", [("pt",), ("pt", "en", "de"), ("xx",), ("pt", "pt", "xx")])
def test_the_known_total_is_the_number_of_ads(media: str, languages: tuple[str, ...]) -> None:
    catalogue, wanted = Catalogue(3), filters("2025-02-01", "2025-02-20", media, languages)
    ads = catalogue.ads(wanted)
    assert catalogue.total(wanted) == len(ads) == len({ad.id for ad in ads})


def test_video_and_image_make_up_all() -> None:
    catalogue = Catalogue(3)
    assert catalogue.total(filters(media="all")) == catalogue.total(
        filters(media="video")
    ) + catalogue.total(filters(media="image"))


def test_the_most_repeated_ads_come_first() -> None:
    counts = [ad.qtd_ads for ad in Catalogue(3).ads(filters(end="2025-01-20"))]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 1


def test_no_ad_starts_on_the_13th() -> None:
    assert Catalogue(3).total(filters("2025-01-13", languages=("pt", "en", "es", "fr", "de"))) == 0


def test_texts_have_characters_that_need_escaping() -> None:
    text = " ".join(
        f"{ad.page_name} {ad.text}"
        for ad in Catalogue(3).ads(filters(end="2025-01-31", languages=("pt", "en", "de")))
    )
    for hard in (
        "ã",
        "ß",
        "🚚",
        "👨‍👩‍👧‍👦",
        '"',
        "'",
        "“",
        "&",
        "<",
        ">",
        "&amp;",
        "&lt;b&gt;",
        "\u00a0",
    ):
        assert hard in text, hard
