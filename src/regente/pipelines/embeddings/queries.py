"""The queries of embeddings."""

from __future__ import annotations

from pathlib import Path

from regente.queries import Queries

QUERIES = Queries(Path(__file__).with_name("embeddings.sql"))
