"""The queries of documents."""

from __future__ import annotations

from pathlib import Path

from regente.queries import Queries

QUERIES = Queries(Path(__file__).with_name("documents.sql"))
EXECUCOES = Queries(Path(__file__).with_name("execucoes.sql"), prepare=False)
