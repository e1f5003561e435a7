"""Data of the quotes stand-in, derived from the seed: analyses, shop offers and the FIPE table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

SHOPS = (
    "Casa Forte",
    "Loja do Bairro",
    "Mega Ofertas",
    "Ponto Certo",
    "Varejo Norte",
    "Super Estoque",
)
OUTLIER_AT, BARE_AT = 5, 6
"""The fifth shop sells packs of ten; the sixth shows no price on its page."""


@dataclass(frozen=True, slots=True)
class Model:
    code: str
    name: str
    first_price: int
    """Price of the newest year, in reais."""


@dataclass(frozen=True, slots=True)
class Brand:
    code: str
    name: str
    said: tuple[str, ...]
    models: tuple[Model, ...]


BRANDS = (
    Brand(
        "59",
        "VW - VolksWagen",
        ("volkswagen", "vw"),
        (
            Model("5940", "AMAROK High.CD 2.0 16V TDI 4x4 Dies. Aut", 210_000),
            Model("5585", "Gol 1.0 Flex 12V 5p", 62_000),
        ),
    ),
    Brand(
        "21",
        "Fiat",
        ("fiat",),
        (
            Model("4828", "Uno Mille 1.0 Fire Flex 4p", 41_000),
            Model("9020", "Strada Volcano 1.3 Flex", 98_000),
        ),
    ),
    Brand(
        "23",
        "GM - Chevrolet",
        ("chevrolet", "gm"),
        (Model("8101", "ONIX HATCH 1.0 12V Flex 5p Mec.", 76_000),),
    ),
)
YEARS = range(2008, 2026)
FUELS = {"1": "Gasolina", "3": "Diesel", "5": "Flex"}
MONTH = "novembro de 2026"


class Market:
    def __init__(self, seed: int) -> None:
        self._seed = seed

    # The analysis.

    def analysis(self, description: str) -> dict[str, Any]:
        words = re.findall(r"[\w.]+", description.casefold())
        for brand in BRANDS:
            if any(said in words for said in brand.said):
                return _vehicle(brand, words, description)
        return {"kind": "product", "search_query": " ".join(description.split())[:120]}

    # The shops' offers.

    def hits(self, query: str, base_url: str) -> list[dict[str, Any]]:
        goods = self.digest("goods", query)
        return [
            {
                "position": number,
                "title": f"{query[:80]} - {shop}",
                "source": shop,
                "product_id": f"{goods}{number}",
                "product_link": f"https://www.google.com/search?ibp=oshop&prds={goods}{number}",
                "immersive_product_page_token": f"{goods}.{number}",
                "serpapi_immersive_product_api": f"{base_url}/serpapi/search.json?engine="
                f"google_immersive_product&page_token={goods}.{number}",
                "price": _reais(self.price(goods, number)),
                "extracted_price": self.price(goods, number) / 100,
            }
            for number, shop in enumerate(SHOPS, 1)
        ]

    def stores(self, token: str, base_url: str) -> list[dict[str, Any]]:
        """The shops that sell the product of this token; none for an unknown one."""
        goods, _, written = token.partition(".")
        number = int(written) if written.isdigit() else 0
        if not 1 <= number <= len(SHOPS):
            return []
        return [
            {
                "name": SHOPS[number - 1],
                "link": f"{base_url}/shop/{goods}/{number}",
                "price": _reais(self.price(goods, number)),
                "extracted_price": self.price(goods, number) / 100,
            }
        ]

    def price(self, goods: str, number: int) -> int:
        """Price in cents: within an eighth of the base price, or that of a pack of ten."""
        base = 5_000 + int(goods[:8], 16) % 495_000
        swing = int(self.digest("swing", goods, str(number))[:4], 16) / 0xFFFF - 0.5
        return round(base * (1 + swing / 4)) * (10 if number == OUTLIER_AT else 1)

    def page(self, goods: str, number: int) -> str:
        """A product page; each shop uses different markup."""
        cents = self.price(goods, number)
        title = f"<title>{SHOPS[number - 1]}</title>"
        head, body = _head(cents, number), _body(cents, number)
        return f"<!doctype html><html><head>{title}{head}</head>{body}</html>"

    def digest(self, *parts: str) -> str:
        return hashlib.blake2b(
            "/".join((str(self._seed), *parts)).encode(), digest_size=8
        ).hexdigest()


# The FIPE table.


def models_of(brand_code: str) -> tuple[Model, ...] | None:
    return next((brand.models for brand in BRANDS if brand.code == brand_code), None)


def years_of(model: Model) -> Iterator[tuple[str, str]]:
    fuel = "3" if "Dies" in model.name else "5" if "Flex" in model.name else "1"
    for year in reversed(YEARS):
        yield f"{year}-{fuel}", f"{year} {FUELS[fuel]}"


def vehicle_price(brand_code: str, model_code: str, year_code: str) -> dict[str, Any] | None:
    brand = next((one for one in BRANDS if one.code == brand_code), None)
    model = next((one for one in brand.models if one.code == model_code), None) if brand else None
    if brand is None or model is None or year_code not in dict(years_of(model)):
        return None
    year, _, fuel = year_code.partition("-")
    cents = round(model.first_price * 100 * 0.93 ** (YEARS[-1] - int(year)))
    return {
        "vehicleType": 1,
        "price": _reais(cents),
        "brand": brand.name,
        "model": model.name,
        "modelYear": int(year),
        "fuel": FUELS[fuel],
        "codeFipe": f"00{model.code[:4]}-1",
        "referenceMonth": MONTH,
        "fuelAcronym": FUELS[fuel][0],
    }


def _vehicle(brand: Brand, words: list[str], description: str) -> dict[str, Any]:
    years = [int(word) for word in words if re.fullmatch(r"(19|20)\d\d", word)]
    model = max(
        brand.models,
        key=lambda one: len(set(words) & set(re.findall(r"[\w.]+", one.name.casefold()))),
    )
    found = {
        "kind": "vehicle",
        "search_query": description[:120],
        "brand": brand.name,
        "model": model.name,
        "vehicle_type": "cars",
    }
    return {**found, "model_year": years[0]} if years else found


def _reais(cents: int) -> str:
    whole = f"{cents // 100:,}".replace(",", ".")
    return f"R$ {whole},{cents % 100:02d}"


def _head(cents: int, number: int) -> str:
    amount = f"{cents / 100:.2f}"
    if number == 1:
        offer = {
            "@type": "Offer",
            "price": amount,
            "priceCurrency": "BRL",
            "availability": "https://schema.org/InStock",
        }
        document: Any = {
            "@context": "https://schema.org",
            "@type": "Product",
            "name": "Item",
            "offers": offer,
        }
        return f'<script type="application/ld+json">{json.dumps(document)}</script>'
    if number == 2:
        offers = {
            "@type": "AggregateOffer",
            "lowPrice": float(amount),
            "highPrice": cents / 50,
            "priceCurrency": "BRL",
        }
        document = {
            "@graph": [
                {"@type": "BreadcrumbList"},
                {"@type": ["Product"], "name": "Item", "offers": [offers]},
            ]
        }
        return f'<script type="application/ld+json">{json.dumps(document)}</script>'
    if number == 3:
        return (
            f'<meta property="product:price:amount" content="{amount}">'
            '<meta property="product:price:currency" content="BRL">'
        )
    return ""


def _body(cents: int, number: int) -> str:
    shown = escape(_reais(cents))
    if number == BARE_AT:
        return "<body><p>Consulte-nos.</p></body>"
    if number == 4:
        return (
            f'<body><span class="old-price">{_reais(cents * 2)}</span>'
            f'<span class="price-box">por {shown} à vista</span></body>'
        )
    currency = '<meta itemprop="priceCurrency" content="BRL">'
    return f'<body><div itemprop="offers">{currency}<b itemprop="price">{shown}</b></div></body>'
