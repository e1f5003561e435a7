"""Quotes: what a thing costs, found out in steps of which the dear ones are paid for once.

A description is analysed; a vehicle is looked up in the FIPE table, anything else is searched for
in shops and priced product by product. The engine keeps every checkpoint; here is only what quotes
are about.
"""

from __future__ import annotations

from pathlib import Path

from regente.pipelines.builtin import Builtin

BUILTIN = Builtin(
    package=__name__,
    pipelines=("quotes", "recover_stuck_quotes", "cleanup_old_processing"),
    migrations=Path(__file__).parent / "migrations",
    commands={"quotes": "regente.pipelines.quotes.cli"},
    api="regente.pipelines.quotes.api",
    tags={
        "quotes": "Price quotes with their evidence, and lots of them.",
        "system": "The endpoints of the quotes' specification.",
    },
    standins="regente.pipelines.quotes.standins",
    page="quotes",
)
