"""Puts the commands together, and turns every error into one line and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import typer

from regente.cli import output
from regente.cli.command import FormatOption, JsonOption, LevelOption, UrlOption
from regente.cli.errors import FAILURE_EXIT, describe
from regente.cli.parent_watch import exit_with_parent

# Which module has which command, in the order of the help. A module of one command has `add_to`,
# one of several a group of the command's name. Only the module of the command that is asked for is
# loaded: all of them take most of a second.
COMMANDS = {
    "up": "up.command",
    "serve": "serve",
    "missions": "missions",
    "fleet": "fleet",
    "orchestrator": "orchestrator",
    "settings": "orchestrator",
    "keys": "keys",
    "quotes": "quotes",
    "rounds": "rounds",
    "embeddings": "embeddings",
    "documents": "documents",
    "run": "run",
    "enqueue": "enqueue",
    "tasks": "tasks",
    "batches": "batches",
    "dead": "dead",
    "runners": "runners",
    "pipelines": "pipelines",
    "schedules": "schedules",
    "events": "events",
    "migrate": "migrate",
    "conformance": "conformance",
    "worker": "worker",
    "writer": "writer",
    "sandbox": "sandbox",
    "doctor": "doctor",
    "demo": "demo.command",
    "version": "version",
}


def commands(words: Sequence[str]) -> typer.Typer:
    """With the command that these words begin with, or with all of them."""
    root = typer.Typer(
        name="regente",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    root.callback()(options)
    for name in words[:1] if words and words[0] in COMMANDS else COMMANDS:
        module = importlib.import_module(f"regente.cli.{COMMANDS[name]}")
        if hasattr(module, "add_to"):
            module.add_to(root)
        else:
            root.add_typer(getattr(module, name))
    return root


def options(
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = None,
) -> None:
    """Regente conducts large scraping and batch jobs to their end, whatever breaks on the way.

    See it work: regente demo. Run your own: regente run --import MODULE, then regente enqueue
    PIPELINE ARGS_JSON.
    """


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    exit_with_parent()
    try:
        code = commands(words)(args=words, prog_name="regente", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exception as error:
        failure = describe(error)
        if failure is None:
            if "--json" not in words:
                raise
            output.write_error("INTERNAL", f"{type(error).__name__}: {error}", as_json=True)
            return FAILURE_EXIT
        output.write_error(failure.code, failure.message, as_json="--json" in words)
        return failure.exit_code
    finally:
        output.forgive_closed_pipe()
