"""`regente worker`: serve the reference worker."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from regente.cli.command import CommandContext, command
from regente.cli.output import facts, show, write_json_line
from regente.engine.errors import InvalidInput

if TYPE_CHECKING:
    from regente.services.worker import WorkerSettings

_PREFIX = "REGENTE_WORKER_"
_NO_DEFAULT: dict[str, Any] = {"show_default": False}


def add_to(root: typer.Typer) -> None:
    command(
        root,
        "worker",
        example="regente worker --port 8101 --data-dir worker-1 --target http://127.0.0.1:8100",
    )(worker)


async def worker(
    context: CommandContext,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 picks a free one.")
    ] = 8101,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of jobs and results. [default: REGENTE_WORKER_DATA_DIR]",
            **_NO_DEFAULT,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of the ad library. [default: REGENTE_WORKER_TARGET]",
            **_NO_DEFAULT,
        ),
    ] = None,
) -> None:
    """Serve the reference worker, which scrapes the ad library, until SIGTERM or Ctrl-C.

    It runs one job at a time and serves results at /storage. Clients send REGENTE_WORKER_API_KEY
    as x-api-key; without that variable a key is created and shown once. Timings and limits are
    REGENTE_WORKER_<NAME> in the environment.
    """
    # Imported here: the web framework is slow to import.
    from regente.asgi.server import serve_until_stopped
    from regente.services.worker import STORAGE_PREFIX, WorkerSettings, create_app

    settings, made_key = _read_settings(WorkerSettings, data_dir, target)

    def announce(url: str) -> None:
        document = {
            "url": url,
            "storage_domain": f"{url}{STORAGE_PREFIX}",
            "target": settings.target,
            "api_key": made_key,
        }
        if context.json:
            write_json_line({name: value for name, value in document.items() if value is not None})
        else:
            show(facts([(name.replace("_", " "), value) for name, value in document.items()]))

    await serve_until_stopped(create_app(settings), host, port, announce)


def _read_settings(
    kind: type[WorkerSettings], data_dir: Path | None, target: str | None
) -> tuple[WorkerSettings, str | None]:
    """The settings, and the key if one was created."""
    given: dict[str, Any] = {"data_dir": data_dir, "target": target}
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return kind(**given), None
    except ValidationError as error:
        wrong = {str(one["loc"][0]): one for one in error.errors()}
    if "api_key" in wrong and wrong["api_key"]["type"] == "missing":
        key = secrets.token_urlsafe(24)
        del wrong["api_key"]
        if not wrong:
            return kind(**given, api_key=key), key
    raise InvalidInput(
        "; ".join(_error_text(name, one["type"], one["msg"]) for name, one in wrong.items())
    )


def _error_text(name: str, kind: str, message: str) -> str:
    option = f"--{name.replace('_', '-')} or " if name in ("data_dir", "target") else ""
    where = f"{option}{_PREFIX}{name.upper()}"
    return f"give {where}" if kind == "missing" else f"{where}: {message}"
