"""Output in a terminal of 80 columns, in a pipe, and in the help of every command."""

from __future__ import annotations

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

from tests.acceptance.conftest import Cli, CliProcess, SampleTasks

GROUPS = {
    "tasks": ("list", "show", "why", "retry", "cancel", "change", "queue"),
    "batches": ("list", "show", "resume", "reprocess", "cancel"),
    "dead": ("list", "show", "retry", "discard"),
    "pipelines": ("list", "pause", "resume"),
    "schedules": ("list", "show", "runs", "add", "pause", "resume", "remove"),
    "deploy": ("check",),
    "migrate": ("up", "down", "status"),
    "missions": ("create", "list", "show", "queue", "cancel", "retry", "why"),
    "fleet": ("list", "test", "activate", "deactivate", "remove"),
    "orchestrator": ("status", "start", "stop"),
    "settings": ("list", "set"),
    "conformance": ("worker", "writer"),
}
COMMANDS = [
    ("run",),
    ("enqueue",),
    ("runners",),
    ("events",),
    ("doctor",),
    ("demo",),
    ("version",),
    ("up",),
    ("worker",),
    ("writer",),
    ("sandbox",),
    *((group, name) for group, names in GROUPS.items() for name in names),
]


def in_terminal(database_url: str, *words: str, columns: int = 80) -> str:
    """The output of `regente …` in a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "REGENTE_DATABASE_URL": database_url, "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "regente", *words]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:
        pass  # the end of a pty whose writer has exited
    finally:
        os.close(ours)
        process.wait()
    return written.decode()


async def test_tables_fit_a_terminal_of_80_columns_and_keep_ids_whole(
    sample: SampleTasks, database_url: str
) -> None:
    async with sample.app.database.transaction() as connection:
        await connection.execute(
            "UPDATE regente.tasks SET id = id + 123456789012 WHERE status = 'failed'"
        )
    for words in (("tasks", "list"), ("dead", "list")):
        written = in_terminal(database_url, *words)
        lines = [Text.from_ansi(line).plain.rstrip() for line in written.splitlines()]
        assert max(cell_len(line) for line in lines) <= 80
        assert any(str(123456789012 + sample.failed) in line for line in lines)
        assert "\x1b[" in written


async def test_a_pipe_gets_one_line_per_row_without_colour(cli: Cli, sample: SampleTasks) -> None:
    text = await cli.text("dead", "list")
    assert len(text.splitlines()) == 3
    assert "\x1b" not in text
    assert "…" not in text


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_every_command_has_help_with_an_example_and_takes_json(
    bare_cli: Cli, words: tuple[str, ...]
) -> None:
    text = await bare_cli.text(*words, "--help")
    assert f"Example: regente {' '.join(words)}" in " ".join(text.split())
    assert "--json" in text


async def test_without_a_command_the_help_is_shown(bare_cli: Cli) -> None:
    for words in ((), ("tasks",)):
        answer = await bare_cli(*words)
        assert "Usage: regente" in answer.out
        assert answer.err == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    python = shlex.quote(sys.executable)
    command = f"{python} -m regente --help | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_without_an_address_the_embedded_server_is_used(start: Callable[..., CliProcess]) -> None:
    with tempfile.TemporaryDirectory(prefix="regente-cli-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        data = str(Path(folder) / "data")
        answer = start("tasks", "list", REGENTE_DATABASE_URL="", REGENTE_DATA_DIR=data).wait(60)
        assert (answer.code, "No tasks yet" in answer.out) == (0, True), answer
        doctor = start("doctor", "--json", REGENTE_DATABASE_URL="", REGENTE_DATA_DIR=data).wait(60)
        assert [one["check"] for one in doctor.data[-2:]] == ["disk", "embedded"]


@pytest.mark.parametrize("module", ["run", "serve", "worker", "writer", "sandbox", "tasks"])
def test_a_command_imports_rendering_libraries_only_to_render(module: str) -> None:
    """They would take a third of the start of a service or a command with `--json`."""
    heavy = "{'rich', 'pygments', 'structlog', 'fastapi'}"
    program = (
        f"import sys, regente.cli.entry, regente.cli.{module}; print({heavy} & sys.modules.keys())"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
