"""The embeddings' statements."""

from __future__ import annotations

from pathlib import Path

from regente.pipelines.statements import Statements

_STATEMENTS = Statements(Path(__file__).with_name("embeddings.sql"))
rows_on, formatted_on, ask = _STATEMENTS.on, _STATEMENTS.formatted_on, _STATEMENTS.ask
