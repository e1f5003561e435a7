"""Puts the commands together, and turns every error into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from regente.cli import doctor, enqueue, events, output, run, runners, sandbox, serve, version, worker, writer
from regente.cli.batches import batches
from regente.cli.command import FormatOption, JsonOption, LevelOption, UrlOption
from regente.cli.conformance import conformance
from regente.cli.dead import dead
from regente.cli.demo import command as demo
from regente.cli.documents import documents
from regente.cli.embeddings import embeddings
from regente.cli.failure import FAILURE_EXIT, describe
from regente.cli.fleet import fleet
from regente.cli.keys import keys
from regente.cli.leash import wear_leash
from regente.cli.migrate import migrate
from regente.cli.missions import missions
from regente.cli.orchestrator import orchestrator, settings
from regente.cli.pipelines import pipelines
from regente.cli.quotes import quotes
from regente.cli.rounds import rounds
from regente.cli.schedules import schedules
from regente.cli.tasks import tasks
from regente.cli.up import command as up

root = typer.Typer(
    name="regente",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@root.callback()
def options(
    as_json: JsonOption = False, database_url: UrlOption = None, log_level: LevelOption = None, log_format: FormatOption = None
) -> None:
    """Regente conducts large scraping and batch jobs to their end, whatever breaks on the way.

    See it work: regente demo. Run your own: regente run --import MODULE, then regente enqueue PIPELINE ARGS_JSON.
    """


up.add_to(root)
serve.add_to(root)
for group in (missions, documents, fleet, orchestrator, settings, keys):
    root.add_typer(group)
root.add_typer(quotes)
root.add_typer(rounds)
root.add_typer(embeddings)
for part in (run, enqueue):
    part.add_to(root)
for group in (tasks, batches, dead):
    root.add_typer(group)
runners.add_to(root)
for group in (pipelines, schedules):
    root.add_typer(group)
events.add_to(root)
root.add_typer(migrate)
root.add_typer(conformance)
for part in (worker, writer, sandbox, doctor, demo, version):
    part.add_to(root)


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    wear_leash()
    try:
        code = root(args=words, prog_name="regente", standalone_mode=False)
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
