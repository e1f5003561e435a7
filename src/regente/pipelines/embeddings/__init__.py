"""Embeddings: vectors of texts, with one embedding for equal contents."""

from __future__ import annotations

from pathlib import Path

from regente.pipelines.builtin import Builtin

BUILTIN = Builtin(
    package=__name__,
    pipelines=("embeddings",),
    migrations=Path(__file__).parent / "migrations",
    commands={"embeddings": "regente.pipelines.embeddings.cli"},
    api="regente.pipelines.embeddings.api",
    tags={"embeddings": "Texts as vectors, each content once, and the nearest of them."},
    standins="regente.pipelines.embeddings.standins",
    page="embeddings",
)
