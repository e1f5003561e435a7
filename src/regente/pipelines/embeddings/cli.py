"""`regente embeddings …`: embed texts, list and search them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli import output
from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.inputs import LimitOption, batch_reference
from regente.cli.output import Column, facts, figure, number, plural, table, when, word
from regente.cli.progress import follow_batch
from regente.engine.errors import InvalidInput
from regente.engine.models import BatchInfo, as_dict
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.read_models import AddedTexts, EmbeddingStats
from regente.pipelines.embeddings.sources import Format, Source

if TYPE_CHECKING:
    from rich.console import RenderableType

embeddings = typer.Typer(
    name="embeddings", help="Embed texts and search them by similarity.", no_args_is_help=True
)

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        show_default=False,
        help="hashing, wordllama, or a model of the API (NAME@256 shortens it). "
        "[default: REGENTE_EMBEDDINGS_MODEL, or the first available]",
    ),
]


@command(
    embeddings,
    "add",
    audited="embeddings.add",
    example="regente embeddings add reviews.jsonl --batch reviews --follow",
)
async def add(
    context: CommandContext,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File with a text per line, or .jsonl with `text` fields; - reads stdin.",
            show_default=False,
        ),
    ],
    batch: Annotated[
        str | None, typer.Option(help="A batch's id or name; a new name creates one.")
    ] = None,
    model: ModelOption = None,
    file_format: Annotated[
        Format | None, typer.Option("--format", help="Format of the file. [default: by its name]")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait until all are embedded.")] = False,
) -> None:
    """Queue the texts of a file. Texts that are embedded already are not paid for again.

    The whole file is checked before the first text is queued. Adding the same file again does no
    harm.
    """
    source = Source.of(file, file_format)
    total = source.count() if source.can_be_read_twice else None
    if total == 0:
        raise InvalidInput(f"{file} has no texts")
    async with context.app("embeddings") as app:
        operations = EmbeddingOperations(app)
        into = batch_reference(batch) if batch is not None else None
        with output.progress("Queueing texts", total or 0) as bar:
            added = await operations.add(
                source.texts(),
                model=model,
                batch=into,
                progress=lambda count: bar.update(bar.task_ids[0], completed=count),
            )
        found = await follow_batch(app, added.batch_id, "Embedding") if follow else None
    document = added.model_dump() | ({"outcome": as_dict(found)} if found else {})
    context.answer(document, lambda: _told(added, found))
    if found is not None and (found.status != "completed" or found.failed):
        raise typer.Exit(FAILURE_EXIT)


@command(embeddings, "list", example="regente embeddings list --limit 5")
async def list_embeddings(
    context: CommandContext, model: ModelOption = None, limit: LimitOption = 20
) -> None:
    """List embeddings, newest first."""
    async with context.app("embeddings") as app:
        found = await EmbeddingOperations(app).find(model=model, limit=limit)
    columns = (figure("ID"), word("MODEL"), word("CREATED"), Column("TEXT"))
    rows = [(str(one.id), one.model, when(one.created_at), one.text[:100]) for one in found]
    nothing = "No embeddings yet. Add some with: regente embeddings add FILE"
    context.answer(found, lambda: table(columns, rows) if found else nothing)


@command(embeddings, "stats", example="regente embeddings stats")
async def stats(context: CommandContext) -> None:
    """Show the number of vectors by model, their storage type, and open tasks."""
    async with context.app("embeddings") as app:
        found = await EmbeddingOperations(app).stats()
    context.answer(found, lambda: facts(_facts(found)))


@command(
    embeddings, "search", example='regente embeddings search "comfortable office chair" --limit 5'
)
async def search(
    context: CommandContext,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The text to search for.", show_default=False)
    ],
    model: ModelOption = None,
    limit: LimitOption = 10,
) -> None:
    """Find the texts most similar to a text, by the cosine of their vectors."""
    async with context.app("embeddings") as app:
        found = await EmbeddingOperations(app).search(text, model=model, limit=limit)
    columns = (figure("SIMILARITY"), figure("ID"), Column("TEXT"))
    rows = [(f"{one.similarity:.4f}", str(one.id), one.text[:200]) for one in found]
    context.answer(found, lambda: table(columns, rows) if found else "Nothing is embedded yet.")


@command(
    embeddings,
    "pgvector",
    audited="embeddings.pgvector",
    example="regente embeddings pgvector --index",
)
async def pgvector(
    context: CommandContext,
    index: Annotated[
        bool, typer.Option("--index", help="Also build an index for the model.")
    ] = False,
    model: ModelOption = None,
) -> None:
    """Convert all vectors to pgvector. No vectors are stored meanwhile.

    A runner converts a small table by itself if the extension is available.
    """
    async with context.app("embeddings") as app:
        operations = EmbeddingOperations(app)
        answer: dict[str, Any] = {"storage": await operations.use_pgvector()}
        if index:
            answer["index"] = await operations.index(model)
    context.answer(
        answer,
        lambda: (
            f"Vectors are stored as {answer['storage']}."
            + (" The index is built." if index else "")
        ),
    )


def _told(added: AddedTexts, found: BatchInfo | None) -> str:
    queued = (
        f"{plural(added.texts, 'text')} in {plural(added.tasks, 'task')}, model {added.model}, "
        f"batch {added.batch_id}"
    )
    if found is None:
        return f"Queued {queued}. Follow it with: regente batches show {added.batch_id}"
    return (
        f"{queued}: {found.status}, {number(found.completed)} tasks completed, "
        f"{number(found.failed)} failed."
    )


def _facts(found: EmbeddingStats) -> list[tuple[str, RenderableType | None]]:
    under_way = ", ".join(
        f"{number(count)} {state}" for state, count in found.tasks.items() if count
    )
    return [
        ("Vectors", number(found.vectors)),
        ("Stored as", f"{found.storage}, {found.bytes / 1024 / 1024:,.1f} MB"),
        *(
            (
                one.model,
                f"{number(one.vectors)} of {one.dimensions} dimensions, last {when(one.newest_at)}",
            )
            for one in found.models
        ),
        ("Tasks", under_way or "none"),
    ]
