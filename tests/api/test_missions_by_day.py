"""Lists of missions by a range of days, which are read day by day."""

from __future__ import annotations

from typing import Any

import pytest

from regente.pipelines.missions.read_models import MissionFilter
from tests.api.conftest import Served

MEDIA = ("all", "video", "image")
MISSIONS = [
    {
        "date_start": f"2025-01-{1 + n * 7 % 20:02}",
        "date_end": "2025-02-28",
        "media_type": MEDIA[n % 3],
        "languages": ["pt"],
    }
    for n in range(60)
]


@pytest.mark.parametrize(
    "chosen",
    [
        {"date_from": "2025-01-05", "date_to": "2025-01-12"},
        {"date_to": "2025-01-03"},
        {"date_from": "2025-01-18"},
        {"date_from": "0001-01-01", "date_to": "9999-12-31"},
        {"date_from": "2025-01-12", "date_to": "2025-01-05"},
        {"date_from": "2030-01-01"},
        {"date_from": "2025-01-05", "date_to": "2025-01-12", "media_type": "video"},
    ],
)
async def test_a_range_of_days_gives_its_missions_newest_first_page_by_page(
    api: Served, chosen: dict[str, str]
) -> None:
    """O19: the result equals a full scan, for any page size."""
    assert MissionFilter.model_validate(chosen).by_day
    created = await api.operator.post("/api/missions", json={"missions": MISSIONS})
    ids: list[int] = created.json()["ids"]
    expected = [number for number, one in zip(ids, MISSIONS, strict=True) if _matches(one, chosen)]
    found: list[int] = []
    cursor: dict[str, Any] = {}
    while True:
        page = (
            await api.viewer.get("/api/missions", params={**chosen, "limit": 7, **cursor})
        ).json()
        found += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert found == sorted(expected, reverse=True)


def _matches(mission: dict[str, Any], chosen: dict[str, str]) -> bool:
    day = str(mission["date_start"])
    in_range = chosen.get("date_from", "") <= day <= chosen.get("date_to", "9999")
    return in_range and bool(
        chosen.get("media_type", mission["media_type"]) == mission["media_type"]
    )


async def test_days_without_missions_cost_nothing(api: Served) -> None:
    """O18, O19: two missions, 3,652,058 days apart, are listed at once; each day took a look."""
    ends = ("0001-01-01", "9999-12-31")
    apart = [{**MISSIONS[0], "date_start": day, "date_end": day} for day in ends]
    created = await api.operator.post("/api/missions", json={"missions": apart})
    ids = created.json()["ids"]
    for chosen in ({"date_from": ends[0], "date_to": ends[1]}, {"date_from": ends[0]}):
        page = await api.viewer.get("/api/missions", params=chosen)
        assert page.status_code == 200, page.text
        assert [one["id"] for one in page.json()["items"]] == ids[::-1]
