"""Currencies as pages and search results write them: `R$`, `US$`, `EUR`, `€`, `986`."""

from __future__ import annotations

import re
from typing import Any

_SYMBOLS = {
    "R$": "BRL",
    "US$": "USD",
    "U$": "USD",
    "U$S": "USD",
    "€": "EUR",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "A$": "AUD",
    "AU$": "AUD",
    "C$": "CAD",
    "CA$": "CAD",
    "AR$": "ARS",
    "CL$": "CLP",
    "MX$": "MXN",
    "REAL": "BRL",
    "REAIS": "BRL",
    "EURO": "EUR",
    "EUROS": "EUR",
    "986": "BRL",
    "840": "USD",
    "978": "EUR",
}
_DOLLARS_AND_PESOS = frozenset({"ARS", "AUD", "CAD", "CLP", "COP", "MXN", "NZD", "USD", "UYU"})
_CODE = re.compile(r"[A-Z]{3}")
_MAX_CHARACTERS = 20


def currency_of(written: Any, wanted: str) -> str | None:
    """The code of a currency; None if none is written. One that is not known stays as it is
    written, so that it is another one than the wanted. `$` is the wanted currency's sign if it is
    a dollar or peso, else that of US dollars."""
    if isinstance(written, list):
        written = next(iter(written), None)
    text = str(written).strip().upper() if isinstance(written, str | int) else ""
    if not text:
        return None
    if text == "$":
        return wanted if wanted in _DOLLARS_AND_PESOS else "USD"
    return _SYMBOLS.get(text) or (text if _CODE.fullmatch(text) else text[:_MAX_CHARACTERS])
