"""Registers the commands, and turns every error into one line and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import typer

from regente.cli import output
from regente.cli.argv import hide_secrets
from regente.cli.command import FormatOption, JsonOption, LevelOption, UrlOption
from regente.cli.errors import FAILURE_EXIT, describe
from regente.cli.parent_watch import exit_with_parent
from regente.pipelines.builtins import builtins

# The commands and their modules, in the order of the help; those of the built-in pipelines come
# between the two parts. A module of one command has `add_to`, a module of several has a group of
# the command's name. Only the called command's module is imported: all together take most of a
# second.
_FIRST = {"up": "regente.cli.up.command", "serve": "regente.cli.serve"}
_LAST = {
    **{
        name: f"regente.cli.{name}"
        for name in (
            "settings",
            "keys",
            "run",
            "enqueue",
            "tasks",
            "batches",
            "dead",
            "runners",
            "pipelines",
            "lanes",
            "schedules",
            "deploy",
            "events",
            "audit",
            "migrate",
            "conformance",
            "worker",
            "writer",
            "sandbox",
            "doctor",
        )
    },
    "demo": "regente.cli.demo.command",
    "version": "regente.cli.version",
}


def known_commands() -> dict[str, str]:
    of_builtins = {name: module for one in builtins() for name, module in one.commands.items()}
    return {**_FIRST, **of_builtins, **_LAST}


def commands(words: Sequence[str]) -> typer.Typer:
    """The root command with the subcommand that these words begin with, or with all."""
    root = typer.Typer(
        name="regente",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    root.callback()(options)
    known = known_commands()
    for name in words[:1] if words and words[0] in known else known:
        module = importlib.import_module(known[name])
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
    """Regente is a durable job engine for large scraping and batch jobs, on PostgreSQL.

    Try it: regente demo. Run your own pipelines: regente run --import MODULE, then regente enqueue
    PIPELINE ARGS_JSON.
    """


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        hide_secrets(words)
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
        output.ignore_closed_pipe()
