"""Quotes: find the price of an item, with evidence; a recorded step is not paid for again.

The description is analysed; a vehicle is looked up in the FIPE table, another item is searched in
shops and priced product by product. The engine records the checkpoints.
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
    additions="regente.pipelines.quotes.api.additions",
    tags={
        "quotes": "Price quotes with their evidence, and lots of them.",
        "system": "Endpoints of the quotes' specification.",
    },
    standins="regente.pipelines.quotes.standins",
    page="quotes",
)
