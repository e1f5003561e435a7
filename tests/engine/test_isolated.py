"""Isolated steps: any failure of the child process fails one step of one task."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regente import Regente, Retry
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine import isolated_work as work
from tests.engine.helpers import Sql, one, running, status_is, task_row, until


async def isolated(
    app: Regente,
    registry: Registry,
    function: Callable[..., Any],
    *args: Any,
    retry: Retry | None = None,
    **options: Any,
) -> tuple[int, list[Any]]:
    """Runs the function as an isolated step of one task; the task's id and the step's result."""
    got: list[Any] = []

    @registry.pipeline("p", retry=retry or Retry(max_attempts=1))
    async def run(task: Task) -> None:
        got.append(await task.step("PARSE", function, *args, isolated=True, **options))

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    return task_id, got


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("function", "args", "value"),
    [
        (work.add, (2, 3), 5),
        (work.added_later, (2, 3), 5),
        (work.parsed, ("t",), work.Parsed("t", 3)),
        (work.Parser.triple, (4,), 12),
        (work.noisy, (), "quiet"),
    ],
    ids=["sync", "async", "typed", "static method", "prints to stdout"],
)
async def test_a_result_comes_back(
    app: Regente,
    registry: Registry,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    value: Any,
) -> None:
    """W8: typed like any other step's; printed output is not mixed with it."""
    _, got = await isolated(app, registry, function, *args)
    assert got == [value]


async def test_its_environment_holds_no_secret(
    app: Regente, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W8: hostile input that takes over the parser finds no key of ours."""
    for name in ("REGENTE_SECRET_KEY", "REGENTE_DATABASE_URL", "PGPASSWORD", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "canary-7f3a9c")
    _, got = await isolated(app, registry, work.environment)
    assert got[0]["PATH"] == os.environ["PATH"]
    assert "canary-7f3a9c" not in str(got)


async def test_it_runs_in_another_process_with_keyword_arguments(
    app: Regente, registry: Registry
) -> None:
    """W8."""
    _, got = await isolated(app, registry, work.pid)
    assert got != [os.getpid()]


@pytest.mark.parametrize(
    ("function", "args", "code", "message"),
    [
        (work.segfault, (), "ISOLATED_CRASH", "SIGSEGV"),
        (work.kill_self, (), "ISOLATED_CRASH", "SIGKILL"),
        (work.exit_hard, (7,), "ISOLATED_CRASH", "status 7"),
        (work.exit_hard, (0,), "ISOLATED_CRASH", "status 0"),
        (work.raise_error, ("SystemExit",), "SystemExit", "3"),
        (work.raise_error, ("KeyboardInterrupt",), "KeyboardInterrupt", ""),
    ],
)
async def test_a_crash_fails_the_attempt_with_its_signal(
    app: Regente,
    registry: Registry,
    sql: Sql,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    code: str,
    message: str,
) -> None:
    """W8, F15: a parser that segfaults fails one task, which is retried by its policy."""
    task_id, got = await isolated(
        app, registry, function, *args, retry=Retry(max_attempts=2, first=0.01)
    )
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], row["error_code"], got) == ("failed", 2, code, [])
    assert message in row["error_message"]
    assert one(sql, "SELECT step, class FROM regente.failures LIMIT 1") == {
        "step": "PARSE",
        "class": "transient",
    }


async def test_a_step_over_its_memory_limit_fails(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """W8, Q12: the limit ends the step, not the machine."""
    task_id, _ = await isolated(app, registry, work.eat_memory, memory_mb=512)
    assert task_row(sql, task_id)["error_code"] == "ISOLATED_MEMORY"


async def test_a_step_over_its_time_limit_fails(
    app: Regente, registry: Registry, sql: Sql, tmp_path: Path
) -> None:
    """W8: the child and its own children have ended when the step fails."""
    pid_file = tmp_path / "pid"
    task_id, _ = await isolated(app, registry, work.sleep_forever, str(pid_file), timeout=10)
    assert task_row(sql, task_id)["error_code"] == "ISOLATED_TIMEOUT"
    assert [alive(int(pid)) for pid in pid_file.read_text().split()] == [False, False]


async def test_cancel_ends_the_process(
    app: Regente, registry: Registry, sql: Sql, tmp_path: Path
) -> None:
    """O12: no process of a canceled task is left."""
    pid_file = tmp_path / "pid"

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.step("PARSE", work.sleep_forever, str(pid_file), isolated=True)

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(pid_file.exists)
        pids = [int(pid) for pid in pid_file.read_text().split()]
        assert [alive(pid) for pid in pids] == [True, True]
        assert await app.cancel(task_id) == "canceling"
        await status_is(app, task_id, "canceled")
        await until(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.parametrize(
    ("name", "status", "failure_class", "code", "details"),
    [
        ("Transient", "failed", "transient", "T1", {"a": 1}),
        ("Blocked", "failed", "blocked", "BLOCKED", {}),
        ("Throttled", "queued", "throttled", "THROTTLED", {}),
        ("Fatal", "failed", "fatal", "F1", {"b": [2]}),
        ("Skip", "skipped", None, None, None),
        ("ValueError", "failed", "transient", "ValueError", {}),
    ],
)
async def test_errors_cross_the_process_with_their_class(
    app: Regente,
    registry: Registry,
    sql: Sql,
    name: str,
    status: str,
    failure_class: str | None,
    code: str | None,
    details: dict[str, Any] | None,
) -> None:
    """W8, Z2: class, code, message, details and the stack of the child."""

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        await task.step("PARSE", work.raise_error, name, isolated=True)

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: task_row(sql, task_id)["attempt"] == 1)
        await status_is(app, task_id, status)
    if failure_class is None:
        return
    failure = one(sql, "SELECT class, code, details FROM regente.failures")
    assert (failure["class"], failure["code"]) == (failure_class, code)
    stack = failure["details"].pop("stack")
    assert "in raise_error" in stack
    assert failure["details"] == details
    if name == "Throttled":
        waits = one(
            sql,
            "SELECT extract(epoch FROM run_at - regente.clock())::float AS s FROM regente.tasks",
        )["s"]
        assert 1200 < waits <= 1234


def local_closure() -> Callable[[], int]:
    def inner() -> int:
        return 1

    return inner


@pytest.mark.parametrize(
    ("function", "args", "code"),
    [
        (lambda: 1, (), "NOT_ISOLATABLE"),
        (local_closure(), (), "NOT_ISOLATABLE"),
        (partial(work.add, 1), (), "NOT_ISOLATABLE"),
        (work.Parser(2).double, (1,), "NOT_ISOLATABLE"),
        (work.add, (work.Unpicklable(),), "NOT_ISOLATABLE"),
        (work.add, (lambda: 1,), "NOT_ISOLATABLE"),
        (work.not_json, (), "INVALID_OUTPUT"),
        (work.large, (), "INVALID_OUTPUT"),
    ],
    ids=[
        "lambda",
        "closure",
        "partial",
        "bound method",
        "unpicklable",
        "lambda as argument",
        "no JSON",
        "too large",
    ],
)
async def test_a_function_that_cannot_run_isolated_is_fatal(
    app: Regente,
    registry: Registry,
    sql: Sql,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    code: str,
) -> None:
    """W8: it is not retried, and the message names the mistake."""
    task_id, got = await isolated(
        app, registry, function, *args, retry=Retry(max_attempts=3, first=0.01)
    )
    row = task_row(sql, task_id)
    assert (row["status"], row["attempt"], row["error_code"], got) == ("failed", 1, code, [])
