"""The queries of quotes."""

from __future__ import annotations

from pathlib import Path

from regente.queries import Queries

QUERIES = Queries(Path(__file__).with_name("quotes.sql"))
SYSTEM = Queries(Path(__file__).with_name("system.sql"), prepare=False)
