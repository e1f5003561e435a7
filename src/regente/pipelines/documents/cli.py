"""`regente documents …`: classify files; show, resume and reprocess executions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.app import Regente
from regente.cli import output
from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.inputs import MAX_ID, LimitOption, batch_reference
from regente.cli.output import (
    Column,
    duration,
    facts,
    figure,
    number,
    plural,
    styled,
    table,
    when,
    word,
)
from regente.cli.progress import follow_batch
from regente.pipelines.documents.models import (
    DocumentStatus,
    ExecutionStatus,
    Project,
)
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.read_models import DocumentExecution, DocumentResult
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.sources import documents_in, with_contents

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

documents = typer.Typer(
    name="documents",
    help="Classify documents, show and resume executions, manage projects.",
    no_args_is_help=True,
)

ExecutionArgument = Annotated[
    str, typer.Argument(metavar="EXECUTION", help="The execution's id or name.", show_default=False)
]
StatusOption = Annotated[
    list[DocumentStatus] | None,
    typer.Option("--status", help="Only documents in this state. May be repeated."),
]

_STYLES = {
    "CONCLUIDO": "green",
    "ERRO": "red",
    "TRAVADO": "red",
    "EM_ANDAMENTO": "cyan",
    "PROCESSANDO": "cyan",
    "PENDENTE": "yellow",
    "PULADO": "dim",
    "CANCELADO": "dim",
}


@command(
    documents,
    "classify",
    audited="documents.classify",
    example="regente documents classify ./inbox --project contratos --follow",
)
async def classify(
    context: CommandContext,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder of up to 2,000 files, with subfolders.", show_default=False
        ),
    ],
    project: Annotated[str, typer.Option(help="Project with the classes and limits.")] = "default",
    name: Annotated[
        str,
        typer.Option(help="Name of the execution. [default: a new name]", show_default=False),
    ] = "",
    upload: Annotated[
        bool,
        typer.Option(
            "--upload",
            help="Store the files in the database, for runners that cannot read the folder.",
        ),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait until the execution has ended.")
    ] = False,
) -> None:
    """Classify all files of a folder. Runners do the work: regente run."""
    async with context.app("documents") as app:
        operations = DocumentOperations(app)
        if upload:
            _, found = await asyncio.to_thread(documents_in, folder)
            stored = with_contents(folder, found, DocumentSettings().max_file_bytes)
            execution_id = await operations.submit_contents(
                stored, project=project, name=name, by=BY
            )
        else:
            execution_id = await operations.submit_folder(folder, project=project, name=name, by=BY)
        if follow:
            await _follow(app, execution_id)
        execution = await operations.execution(execution_id)
    context.answer(execution, lambda: facts(_facts(execution)))


@command(documents, "projects", example="regente documents projects")
async def projects(context: CommandContext) -> None:
    """List projects with their classes and limits of retries."""
    async with context.app("documents") as app:
        found = await DocumentOperations(app).projects()
    columns = (
        Column("PROJECT"),
        figure("EXECUTION RETRIES"),
        figure("DOCUMENT RETRIES"),
        Column("MODEL"),
        Column("CLASSES"),
    )
    context.answer(
        [one.model_dump() for one in found], lambda: table(columns, map(_project_row, found))
    )


@command(
    documents,
    "project",
    audited="documents.project",
    example='regente documents project contratos --class "contrato=an agreement" --class outro',
)
async def put_project(
    context: CommandContext,
    name: Annotated[str, typer.Argument(help="The project's name.", show_default=False)],
    classes: Annotated[
        list[str],
        typer.Option(
            "--class",
            metavar="NAME[=DESCRIPTION]",
            help="A class. May be repeated.",
            show_default=False,
        ),
    ],
    instructions: Annotated[str, typer.Option(help="More instructions for the model.")] = "",
    model: Annotated[
        str | None, typer.Option(help="[default: REGENTE_DOCUMENTS_MODEL]", show_default=False)
    ] = None,
    max_retries_execucao: Annotated[
        int, typer.Option(help="Maximum resumes of a stalled execution.")
    ] = 3,
    max_retries_documento: Annotated[int, typer.Option(help="Maximum retries of a document.")] = 2,
) -> None:
    """Create or change a project. Submitted executions keep their settings."""
    described = [text.partition("=") for text in classes]
    async with context.app("documents") as app:
        made = await DocumentOperations(app).put_project(
            name=name,
            classes=[{"name": one, "description": about} for one, _, about in described],
            instructions=instructions,
            model=model,
            max_retries_execucao=max_retries_execucao,
            max_retries_documento=max_retries_documento,
        )
    context.answer(
        made.model_dump(), lambda: f"Project {made.name} has {len(made.classes)} classes."
    )


@command(documents, "list", example="regente documents list")
async def list_executions(context: CommandContext, limit: LimitOption = 50) -> None:
    """List executions, newest first."""
    async with context.app("documents") as app:
        found = await DocumentOperations(app).executions(limit=limit)
    columns = (
        figure("ID"),
        Column("NAME"),
        Column("PROJECT"),
        word("STATUS"),
        figure("TOTAL"),
        figure("DONE"),
        figure("SKIPPED"),
        figure("ERRORS"),
        figure("OPEN"),
        figure("ETA"),
    )
    nothing = "No executions yet. Start one with: regente documents classify DIR"
    context.answer(
        found,
        lambda: table(columns, map(_row, found)) if found else nothing,
    )


@command(documents, "show", example="regente documents show 12 --status PULADO")
async def show(
    context: CommandContext,
    execution: ExecutionArgument,
    status: StatusOption = None,
    limit: LimitOption = 100,
) -> None:
    """Show an execution and its documents with their classes or errors."""
    async with context.app("documents") as app:
        operations = DocumentOperations(app)
        found = await operations.execution(batch_reference(execution))
        rows = await operations.documents(found.id, statuses=status, limit=limit)
    if context.json:
        output.write_json({**found.model_dump(), "itens": [row.model_dump() for row in rows]})
        return
    columns = (
        figure("ID"),
        Column("DOCUMENT"),
        word("STATUS"),
        figure("TRIES"),
        Column("CLASS OR REASON"),
    )
    output.show(facts(_facts(found)), "", table(columns, map(_document_row, rows)))


@command(documents, "errors", example="regente documents errors 12")
async def errors(
    context: CommandContext, execution: ExecutionArgument, limit: LimitOption = 100
) -> None:
    """List failed documents."""
    async with context.app("documents") as app:
        rows = await DocumentOperations(app).documents(
            batch_reference(execution), statuses=["ERRO"], limit=limit
        )
    columns = (
        figure("ID"),
        Column("DOCUMENT"),
        figure("TRIES"),
        word("LAST ERROR"),
        Column("CODE"),
        Column("MESSAGE"),
    )
    context.answer(
        rows, lambda: table(columns, map(_error_row, rows)) if rows else "No document has an error."
    )


@command(documents, "resume", audited="documents.resume", example="regente documents resume 12")
async def resume(context: CommandContext, execution: ExecutionArgument) -> None:
    """Resume a stalled (TRAVADO) execution. Of two concurrent calls only one resumes it."""
    async with context.app("documents") as app:
        answer = await DocumentOperations(app).resume(batch_reference(execution))
    text = f"Resumed: {plural(answer.released, 'stuck document')} back in the queue."
    context.answer(answer, lambda: text if answer.resumed else f"Nothing changed: {answer.reason}.")


@command(
    documents,
    "reprocess",
    audited="documents.reprocess",
    example="regente documents reprocess 12 --code HTTP_502",
)
async def reprocess(
    context: CommandContext,
    execution: ExecutionArgument,
    code: Annotated[
        list[str] | None, typer.Option(help="Only errors with this code. May be repeated.")
    ] = None,
    document_id: Annotated[
        list[int] | None,
        typer.Option("--id", min=1, max=MAX_ID, help="Only this document. May be repeated."),
    ] = None,
) -> None:
    """Retry failed documents."""
    async with context.app("documents") as app:
        queued = await DocumentOperations(app).reprocess(
            batch_reference(execution), codes=code or None, ids=document_id or None
        )
    nothing = "No document with an error matches: nothing changed."
    context.answer(
        {"reprocessed": queued},
        lambda: f"{plural(len(queued), 'document')} back in the queue." if queued else nothing,
    )


async def _follow(app: Regente, execution_id: int) -> None:
    ended = await follow_batch(app, execution_id, "Documents")
    if ExecutionStatus.of_batch(ended.status) is ExecutionStatus.TRAVADO:
        output.note(
            f"It is stalled: show it with `regente documents show {execution_id}`, resume it with "
            f"`… resume {execution_id}`."
        )


def _project_row(project: Project) -> tuple[RenderableType, ...]:
    classes = ", ".join(one.name for one in project.classes)
    retries = (str(project.max_retries_execucao), str(project.max_retries_documento))
    return project.name, *retries, project.model or "", classes


def _row(one: DocumentExecution) -> tuple[RenderableType, ...]:
    counts = one.documentos
    waiting = counts.PENDENTE + counts.PROCESSANDO
    return (
        str(one.id),
        one.nome,
        one.projeto,
        _state(one.status),
        number(one.total),
        number(counts.CONCLUIDO),
        number(counts.PULADO),
        number(counts.ERRO),
        number(waiting),
        duration(one.eta_segundos),
    )


def _document_row(row: DocumentResult) -> tuple[RenderableType, ...]:
    told = row.categoria or row.pulado_motivo or row.erro_mensagem or row.etapa or ""
    return str(row.id), row.codigo, _state(row.status), str(row.tentativas), told


def _error_row(row: DocumentResult) -> tuple[RenderableType, ...]:
    last = when(row.ultimo_erro_em)
    return (
        str(row.id),
        row.codigo,
        str(row.tentativas),
        last,
        row.erro_codigo or "",
        row.erro_mensagem or "",
    )


def _facts(one: DocumentExecution) -> list[tuple[str, Any]]:
    return [
        ("Execution", str(one.id)),
        ("Name", one.nome),
        ("Project", one.projeto),
        ("Status", _state(one.status)),
        ("Folder", one.pasta),
        ("Documents", number(one.total)),
        *((state, number(count)) for state, count in one.documentos if count),
        ("Progress", f"{one.progresso_pct:g} %"),
        ("ETA", duration(one.eta_segundos)),
        ("Resumes", f"{one.tentativas_retry} of {one.max_retries}"),
        ("Started", when(one.criado_em)),
        ("Last heartbeat", when(one.ultimo_heartbeat)),
        ("Finished", when(one.concluido_em)),
    ]


def _state(state: str) -> Text:
    return styled(str(state), style=_STYLES.get(str(state), ""))
