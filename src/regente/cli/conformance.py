"""`regente conformance …`: check a worker or a writer against its contract."""

from __future__ import annotations

import logging
import os
from collections.abc import Coroutine
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.output import Column, group, plural, styled, table, word
from regente.engine.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from regente.conformance import Finding, Report

conformance = typer.Typer(
    name="conformance",
    no_args_is_help=True,
    help="Check a worker or a writer against its contract.",
)

PASSWORD_VARIABLE = "REGENTE_CONFORMANCE_PROXY_PASSWORD"  # noqa: S105

_COLUMNS = (word("CHECK"), word("SECTION"), word("VERDICT"), Column("EVIDENCE"))
_STYLES = {"pass": "green", "FAIL": "bold red", "skipped": "dim", "optional-missing": "yellow"}


class MediaFormat(StrEnum):
    ALL = "all"
    VIDEO = "video"
    IMAGE = "image"


UrlArgument = Annotated[
    str,
    typer.Argument(metavar="URL", help="The service's base URL, such as http://host:8001."),
]
KeyOption = Annotated[
    str,
    typer.Option(
        "--api-key",
        envvar="REGENTE_CONFORMANCE_API_KEY",
        show_envvar=True,
        help="The service's API key (x-api-key). The variable keeps it off the command line, which "
        "other users of the machine can read while the program starts.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="Limit for a session to be ready and for a job to end.",
    ),
]
RequestTimeoutOption = Annotated[
    float,
    typer.Option(
        "--request-timeout",
        min=0.1,
        metavar="SECONDS",
        help="Limit for one request.",
    ),
]


@command(
    conformance,
    "worker",
    example="regente conformance worker http://host:8001 --storage-domain storage.example.com",
)
async def worker(
    context: CommandContext,
    url: UrlArgument,
    api_key: KeyOption,
    proxy: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Proxy of the session. [default: none]"),
    ] = None,
    proxy_username: Annotated[
        str | None, typer.Option(help=f"User of the proxy; the password is in {PASSWORD_VARIABLE}.")
    ] = None,
    start: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day to scrape.")
    ] = None,
    end: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day; default: the first.")
    ] = None,
    media_format: Annotated[
        MediaFormat, typer.Option("--format", help="Which ads to scrape.")
    ] = MediaFormat.ALL,
    languages: Annotated[str, typer.Option(metavar="CODES", help="Separated by commas.")] = "pt",
    storage_domain: Annotated[
        str | None,
        typer.Option(
            help="Results are at https://DOMAIN/JOB/JOB_results.json; may have a scheme and a port."
        ),
    ] = None,
    timeout: TimeoutOption = 180.0,
    request_timeout: RequestTimeoutOption = 10.0,
) -> None:
    """Check a worker: start a session, scrape, cancel, and send requests that it must refuse.

    Ends every session of that worker. Exits with 0 only when every required check passes.
    """
    # Imported here: HTTP is slow to import.
    from regente.conformance import WorkerOptions, examine_worker

    first = start.date() if start else date(2025, 1, 15)
    options = WorkerOptions(
        url,
        api_key,
        first,
        end.date() if end else first,
        media_format.value,
        tuple(code.strip() for code in languages.split(",") if code.strip()),
        proxy,
        proxy_username,
        os.environ.get(PASSWORD_VARIABLE),
        storage_domain,
        timeout,
        request_timeout,
    )
    await _examine(context, examine_worker(options))


@command(
    conformance, "writer", example="regente conformance writer http://host:8002 --table ads_try"
)
async def writer(
    context: CommandContext,
    url: UrlArgument,
    api_key: KeyOption,
    source_url: Annotated[
        str | None,
        typer.Option(
            help="A JSON document with an `ads` array. [default: a small one on loopback]"
        ),
    ] = None,
    table_name: Annotated[
        str, typer.Option("--table", help="Table to write to; the rows stay in it.")
    ] = "ads",
    schema: Annotated[str, typer.Option(help="Schema of the table.")] = "public",
    conflict_key: Annotated[str, typer.Option(help="Column that identifies a row.")] = "id",
    timeout: TimeoutOption = 180.0,
    request_timeout: RequestTimeoutOption = 10.0,
) -> None:
    """Check a writer: store a small document, and send requests that it must refuse.

    Exits with 0 only when every required check passes. Two rows, `regente-conformance-1` and `-2`,
    stay in the table.
    """
    from regente.conformance import WriterOptions, examine_writer

    options = WriterOptions(
        url, api_key, source_url, table_name, schema, conflict_key, timeout, request_timeout
    )
    await _examine(context, examine_writer(options))


async def _examine(context: CommandContext, examination: Coroutine[Any, Any, Report]) -> None:
    if context.log_level == "info":  # no log line for every request
        logging.getLogger("httpx2").setLevel(logging.WARNING)
    try:
        report = await examination
    except ValidationError as error:
        wrong = (
            f"{'.'.join(map(str, one['loc'])) or 'options'}: {one['msg']}"
            for one in error.errors(include_input=False)
        )
        raise InvalidInput(f"the options are invalid: {'; '.join(wrong)}") from None
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    context.answer(report.as_json(), lambda: _shown(report))
    if not report.conformant:
        raise typer.Exit(FAILURE_EXIT)


def _shown(report: Report) -> RenderableType:
    counts = ", ".join(
        f"{number} {verdict}" for verdict, number in report.counts().items() if number
    )
    verdict = "conformant" if report.conformant else "NOT conformant"
    summary = styled(
        f"\n{report.service} {report.url}: {verdict}; "
        f"{plural(len(report.findings), 'check')}: {counts}"
    )
    return group(table(_COLUMNS, map(_row, report.findings)), summary)


def _row(finding: Finding) -> tuple[RenderableType, ...]:
    verdict = styled(finding.verdict, style=_STYLES[finding.verdict])
    return finding.name, finding.section, verdict, finding.evidence


__all__ = ["conformance"]
