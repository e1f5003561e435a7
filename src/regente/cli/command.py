"""Makes a command of an `async` function that takes a `CommandContext` and its own options.

`--json`, `--database-url`, `--log-level` and `--log-format` work with every command, before or
after its name.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from regente.app import Regente
from regente.cli import output
from regente.cli.address import checked_address
from regente.engine.errors import InvalidInput
from regente.logs import LogFormat, LogLevel, configure_logs
from regente.pipelines.builtins import switched_on
from regente.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

CommandFunction = Callable[..., Coroutine[Any, Any, None]]

_PANEL = "Global options"
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print JSON; errors go to stderr.", rich_help_panel=_PANEL),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="PostgreSQL to use. The variable keeps a password off the command line, which other "
        "users of the machine can read while the program starts. "
        "[default: REGENTE_DATABASE_URL, or an embedded server]",
    ),
]
LevelOption = Annotated[
    LogLevel | None,
    typer.Option(
        "--log-level",
        envvar="REGENTE_LOG_LEVEL",
        case_sensitive=False,
        rich_help_panel=_PANEL,
        help="Default: info.",
    ),
]
FormatOption = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        envvar="REGENTE_LOG_FORMAT",
        case_sensitive=False,
        rich_help_panel=_PANEL,
        help="Default: text in a terminal, else json.",
    ),
]
GLOBAL_OPTIONS: dict[str, Any] = {
    "as_json": JsonOption,
    "database_url": UrlOption,
    "log_level": LevelOption,
    "log_format": FormatOption,
}


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The global options of one command: the database's settings, the output and log formats."""

    json: bool
    settings: Settings
    log_level: LogLevel
    log_format: LogFormat | None
    action: str | None = None
    """The name of a command that acts, for the audit log."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The command's own ones."""

    def app(self, *components: str) -> Regente:
        """Regente with the tables of the engine and of these components. When it closes, it writes
        a command that acts to the audit log."""
        if self.action is not None:
            from regente.cli.audited import AuditedRegente

            return AuditedRegente(self.settings, components, self.action, self.options)
        return Regente(settings=self.settings, components=components)

    def full_app(self) -> Regente:
        """Regente with the tables of the API and of every enabled pipeline."""
        return self.app("api", *self.switched_on)

    @property
    def switched_on(self) -> list[str]:
        """The names of the enabled built-in pipelines."""
        return [one.name for one in switched_on(self.settings.builtins)]

    def answer(self, data: Any, shown: Callable[[], RenderableType]) -> None:
        if self.json:
            output.write_json(data)
        else:
            output.show(shown())


def command(
    group: typer.Typer,
    name: str,
    *,
    example: str,
    fast_loop: bool = False,
    audited: str | None = None,
) -> Callable[[CommandFunction], CommandFunction]:
    """Register the function as the command `name` of the group. Its docstring is the help.

    `audited`: what the audit log calls it; for commands that act.
    """

    def register(function: CommandFunction) -> CommandFunction:
        help_text = inspect.getdoc(function) or ""
        group.command(name, help=help_text, epilog=f"Example: {example}")(
            _with_global_options(function, fast_loop, audited)
        )
        return function

    return register


def _with_global_options(
    function: CommandFunction, fast_loop: bool, audited: str | None
) -> Callable[..., None]:
    def invoke(ctx: typer.Context, **values: Any) -> None:
        before = ctx.find_root().params
        options: dict[str, Any] = {
            name: values.pop(name) or before.get(name) for name in GLOBAL_OPTIONS
        }
        context = replace(_context(**options), action=audited, options=values)
        run_async(function(context, **values), fast_loop=fast_loop)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own),
        *(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=hint,
                default=False if name == "as_json" else None,
            )
            for name, hint in GLOBAL_OPTIONS.items()
        ),
    ]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {one.name: one.annotation for one in parameters}
    return invoke


def _context(
    as_json: bool,
    database_url: str | None,
    log_level: LogLevel | None,
    log_format: LogFormat | None,
) -> CommandContext:
    settings = read_settings()
    address = checked_address(database_url or settings.database_url)
    level = log_level or "info"
    configure_logs(level=level, log_format=log_format)
    return CommandContext(
        as_json, settings.model_copy(update={"database_url": address}), level, log_format
    )


def read_settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        wrong = (f"{_variable(one['loc'])}: {one['msg']}" for one in error.errors())
        raise InvalidInput(f"the environment has invalid settings: {'; '.join(wrong)}") from None


def _variable(place: tuple[int | str, ...]) -> str:
    name = str(place[0]) if place else "REGENTE"
    return name if name.isupper() else f"REGENTE_{name.upper()}"


def run_async(work: Coroutine[Any, Any, None], *, fast_loop: bool = False) -> None:
    if fast_loop and sys.platform != "win32":
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)


__all__ = ["CommandContext", "command", "read_settings", "run_async"]
