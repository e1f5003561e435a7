"""`regente quotes …`: submit, list and show quotes and lots."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.app import Regente
from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.inputs import MAX_ID, BatchArgument, LimitOption, batch_reference
from regente.cli.output import (
    Column,
    facts,
    figure,
    group,
    heading,
    number,
    plural,
    status_text,
    table,
    when,
    word,
)
from regente.cli.progress import follow_batch
from regente.engine.errors import InvalidInput
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations, quote_args
from regente.pipelines.quotes.read_models import Quote, QuoteDetail, QuoteLot

if TYPE_CHECKING:
    from rich.console import RenderableType

quotes = typer.Typer(
    name="quotes", help="Submit, list and show price quotes.", no_args_is_help=True
)

_QUOTES = (
    figure("ID"),
    word("STATUS"),
    word("CHECKPOINT"),
    figure("%"),
    figure("VALUE"),
    Column("DESCRIPTION"),
    Column("LOT"),
    figure("ATTEMPT"),
    Column("ERROR"),
)
_SOURCES = (
    figure("#"),
    Column("SOURCE"),
    figure("PRICE"),
    word("READ FROM"),
    word("NOTE"),
    Column("TITLE"),
    Column("URL"),
)
_CHECKPOINTS = (word("TIME"), word("CHECKPOINT"), figure("ATTEMPT"))
_LOTS = (
    figure("ID"),
    Column("NAME"),
    word("STATUS"),
    figure("QUOTES"),
    figure("PRICED"),
    figure("VALUE"),
    word("CREATED"),
)

QuoteId = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The quote's id.", show_default=False)
]


@command(
    quotes,
    "submit",
    audited="quotes.submit",
    example='regente quotes submit items.csv "Cadeira de escritório" --lot "inventário 2026" '
    "--follow",
)
async def submit(
    context: CommandContext,
    items: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|TEXT...",
            show_default=False,
            help="A description, or a file of descriptions: .csv (description, reference), "
            ".jsonl, or one per line; - reads stdin.",
        ),
    ],
    lot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The lot of the quotes; a new name creates one."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Wait until all have ended; exit with 1 after an error."
        ),
    ] = False,
) -> None:
    """Submit quotes, all or none. A reference that the lot has already is not quoted again."""
    wanted = [quote for item in items for quote in _quotes_in(item)]
    name = lot or (f"quotes of {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}" if follow else None)
    async with context.app("quotes") as app:
        done = await QuoteOperations(app).submit(wanted, lot=name)
        if follow and done.batch_id is not None:
            await _follow(context, app, done.batch_id)
            return
    where = f" in lot {done.batch_id}" if done.batch_id else ""
    context.answer(
        asdict(done),
        lambda: f"{plural(len(done.ids), 'quote')} queued{where}: {_ids(done.ids)}.",
    )


@command(quotes, "list", example="regente quotes list --status ERROR --lot 3")
async def list_quotes(
    context: CommandContext,
    status: Annotated[
        list[str] | None, typer.Option(help="PENDING, PROCESSING, DONE, ERROR, CANCELLED.")
    ] = None,
    lot: Annotated[
        str | None, typer.Option(metavar="LOT", help="Only of this lot, by its id or name.")
    ] = None,
    before: Annotated[
        int | None, typer.Option(min=1, max=MAX_ID, help="Only ids below this: the next page.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List quotes, newest first."""
    async with context.app("quotes") as app:
        batch_id = (await app.batch(batch_reference(lot))).id if lot is not None else None
        found = await QuoteOperations(app).find(
            statuses=status or None, batch_id=batch_id, before_id=before, limit=limit
        )
    nothing = 'No quotes match. Submit one with: regente quotes submit "Cadeira de escritório"'
    context.answer(
        [one.model_dump() for one in found],
        lambda: table(_QUOTES, map(_row, found)) if found else nothing,
    )


@command(quotes, "show", example="regente quotes show 7")
async def show(context: CommandContext, quote_id: QuoteId) -> None:
    """Show a quote: its price, statistics, sources and checkpoints."""
    async with context.app("quotes") as app:
        found = await QuoteOperations(app).get(quote_id)
    context.answer(found.model_dump(), lambda: _shown(found))


@command(quotes, "lots", example="regente quotes lots")
async def lots(context: CommandContext, limit: LimitOption = 50) -> None:
    """List lots, newest first, with the sum of their quotes."""
    async with context.app("quotes") as app:
        found = await QuoteOperations(app).lots(limit=limit)
    nothing = "No lots yet. Open one with: regente quotes submit items.csv --lot NAME"
    context.answer(
        [one.model_dump() for one in found],
        lambda: table(_LOTS, map(_lot_row, found)) if found else nothing,
    )


@command(quotes, "follow", example='regente quotes follow "inventário 2026"')
async def follow_lot(context: CommandContext, lot: BatchArgument) -> None:
    """Wait until a lot has ended. Exits with 1 if one of its quotes failed."""
    async with context.app("quotes") as app:
        batch = await app.batch(batch_reference(lot))
        await _follow(context, app, batch.id)


async def _follow(context: CommandContext, app: Regente, batch_id: int) -> None:
    batch = await follow_batch(app, batch_id, "Quotes")
    lot, _ = await QuoteOperations(app).lot(batch_id)
    document = {
        **lot.model_dump(),
        "completed": batch.completed,
        "failed": batch.failed,
        "canceled": batch.canceled,
    }
    text = (
        f"Lot {lot.id} ({lot.name}) is {batch.status}: {number(batch.completed)} completed, "
        f"{number(batch.failed)} failed; value: {_money(lot.value, lot.currency) or 'none'}."
    )
    context.answer(document, lambda: text)
    if batch.failed or batch.status != "completed":
        raise typer.Exit(FAILURE_EXIT)


def _quotes_in(item: str) -> Iterator[QuoteArgs]:
    path = Path(item)
    if item != "-" and not _is_file(path):
        yield quote_args(item)
        return
    text = sys.stdin.read() if item == "-" else path.read_text("utf-8-sig")
    readers = {".csv": _csv_rows, ".jsonl": _json_rows}
    empty = True
    for line, row in readers.get(path.suffix.lower() if item != "-" else "", _plain_rows)(text):
        empty = False
        try:
            yield quote_args(row.get("description") or "", row.get("reference") or None)
        except InvalidInput as error:
            raise InvalidInput(f"{item}, line {line}: {error.message}") from None
    if empty:
        raise InvalidInput(f"{item} has no description")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a description too long for a file's name
        return False


def _plain_rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, words in enumerate(text.splitlines(), 1):
        if words.strip():
            yield line, {"description": words}


def _csv_rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    separator = ";" if ";" in text.partition("\n")[0] else ","
    reader = csv.DictReader(text.splitlines(), delimiter=separator)
    if "description" not in (reader.fieldnames or ()):
        raise InvalidInput(
            "the CSV file's first line must name the columns: description, reference (optional)"
        )
    for row in reader:
        yield reader.line_num, row


def _json_rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, words in enumerate(text.splitlines(), 1):
        if not words.strip():
            continue
        try:
            row = json.loads(words)
        except ValueError:
            raise InvalidInput(f"line {line} is not JSON") from None
        if not isinstance(row, dict):
            raise InvalidInput(f"line {line} is not an object with a description")
        yield line, row


def _row(quote: Quote) -> tuple[RenderableType, ...]:
    return (
        str(quote.id),
        status_text(quote.status),
        quote.processing_checkpoint or "",
        f"{quote.progress_percentage:.0f}",
        _money(quote.value, quote.currency),
        quote.description[:60],
        quote.lot or "",
        str(quote.attempt_number),
        quote.error_code or "",
    )


def _lot_row(lot: QuoteLot) -> tuple[RenderableType, ...]:
    return (
        str(lot.id),
        lot.name,
        status_text(lot.status),
        number(lot.total),
        number(lot.quoted),
        _money(lot.value, lot.currency),
        when(lot.created_at),
    )


def _shown(quote: QuoteDetail) -> RenderableType:
    statistics = quote.statistics or {}
    error = f"{quote.error_code} {quote.error_message}" if quote.error_code else None
    about: list[tuple[str, RenderableType | None]] = [
        ("Quote", str(quote.id)),
        ("Status", status_text(quote.status)),
        ("Description", quote.description),
        ("Reference", quote.reference),
        ("Lot", quote.lot),
        ("Kind", quote.kind),
        ("Searched for", quote.search_query),
        ("Value", _money(quote.value, quote.currency)),
        ("Checkpoint", quote.processing_checkpoint),
        ("Progress", f"{quote.progress_percentage:g} %"),
        ("Runner", quote.worker_id),
        ("Heartbeat", when(quote.last_heartbeat)),
        ("Attempt", str(quote.attempt_number)),
        ("Started", when(quote.started_at)),
        ("Completed", when(quote.completed_at)),
        ("Error", error),
    ]
    parts: list[RenderableType] = [facts(about)]
    if statistics:
        parts += [
            heading("Statistics"),
            facts([(name.capitalize(), str(value)) for name, value in statistics.items()]),
        ]
    if quote.sources:
        rows = [
            (
                str(one.position),
                one.source,
                _money(one.price, one.currency),
                one.method or "",
                "outlier" if one.outlier else one.error or "",
                one.title[:60],
                one.url or "",
            )
            for one in quote.sources
        ]
        parts += [heading("Evidence"), table(_SOURCES, rows)]
    if quote.checkpoints:
        passed = [(when(one.at), one.checkpoint, str(one.attempt)) for one in quote.checkpoints]
        parts += [
            heading("Checkpoints"),
            table((word("TIME"), word("CHECKPOINT"), figure("ATTEMPT")), passed),
        ]
    return group(*parts)


def _money(value: Decimal | None, currency: str | None) -> str:
    return "" if value is None else f"{value:,.2f} {currency or ''}".strip()


def _ids(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:10])) + (f" … {max(ids)}" if len(ids) > 10 else "")
