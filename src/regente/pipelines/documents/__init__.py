"""Documents (specification 004): executions that classify files by their project's classes."""

from __future__ import annotations

from pathlib import Path

from regente.pipelines.builtin import Builtin

BUILTIN = Builtin(
    package=__name__,
    pipelines=("documents",),
    migrations=Path(__file__).parent / "migrations",
    commands={"documents": "regente.pipelines.documents.cli"},
    api="regente.pipelines.documents.api",
    tags={
        "documents": "Files that are classified: projects and executions.",
        "execucoes": "The endpoints of the documents' specification.",
    },
    standins="regente.pipelines.documents.standins",
    page="documents",
)
