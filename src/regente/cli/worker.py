"""`regente worker`: be a worker on the Worker API, until told to stop."""

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
    call: CommandContext,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8101,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Jobs and results; else REGENTE_WORKER_DATA_DIR.", **_NO_DEFAULT
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The ad library; else REGENTE_WORKER_TARGET.", **_NO_DEFAULT
        ),
    ] = None,
) -> None:
    """Scrape the ad library for an orchestrator, one job at a time, until SIGTERM or Ctrl-C.

    The key that clients send as x-api-key is REGENTE_WORKER_API_KEY; without it one is made and
    shown once. Timings and limits are REGENTE_WORKER_<NAME> in the environment. Results are served
    at /storage.
    """
    # The web framework is heavy: only the commands that serve pay for it.
    from regente.asgi.server import serve_until_stopped
    from regente.services.worker import STORAGE_PREFIX, WorkerSettings, create_app

    settings, made_key = _read_settings(WorkerSettings, data_dir, target)

    def announce(url: str) -> None:
        told = {
            "url": url,
            "storage_domain": f"{url}{STORAGE_PREFIX}",
            "target": settings.target,
            "api_key": made_key,
        }
        if call.json:
            write_json_line({name: value for name, value in told.items() if value is not None})
        else:
            show(facts([(name.replace("_", " "), value) for name, value in told.items()]))

    await serve_until_stopped(create_app(settings), host, port, announce)


def _read_settings(
    kind: type[WorkerSettings], data_dir: Path | None, target: str | None
) -> tuple[WorkerSettings, str | None]:
    """The settings, and the key if it had to be made."""
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
        "; ".join(_complaint(name, one["type"], one["msg"]) for name, one in wrong.items())
    )


def _complaint(name: str, kind: str, message: str) -> str:
    option = f"--{name.replace('_', '-')} or " if name in ("data_dir", "target") else ""
    where = f"{option}{_PREFIX}{name.upper()}"
    return f"give {where}" if kind == "missing" else f"{where}: {message}"
