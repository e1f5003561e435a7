"""The fork server: a process for each isolated step; a new interpreter where forking is unsafe."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from regente.engine.errors import Transient
from regente.engine.forkserver import ForkServer, current_forkserver
from regente.engine.isolation import run_isolated
from tests.engine import isolated_work as work
from tests.engine import threaded_work
from tests.support.eventually import eventually


@pytest.fixture
async def forkserver() -> AsyncIterator[ForkServer]:
    opened = ForkServer()
    token = current_forkserver.set(opened)
    yield opened
    current_forkserver.reset(token)
    await opened.close()


async def call(function: Any, *args: Any, timeout: float = 30.0) -> Any:
    return await run_isolated(
        function, args, {}, timeout_seconds=timeout, memory_mb=None, on_start=lambda _: None
    )


def exists(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_each_step_is_a_child_of_one_fork_server(forkserver: ForkServer) -> None:
    """W8, W9: no state of one step reaches the next."""
    pids = [await call(work.pid) for _ in range(20)]
    assert len({*pids, os.getpid()}) == 21
    assert await call(work.parent) == await call(work.parent)
    assert [await call(work.count_up) for _ in range(2)] == [1, 1]


async def test_a_module_with_threads_runs_in_a_new_interpreter(forkserver: ForkServer) -> None:
    """A fork of a process with threads may deadlock."""
    assert await call(threaded_work.threads) == 2
    assert await call(work.add, 2, 3) == 5


async def test_a_killed_fork_server_is_replaced(forkserver: ForkServer) -> None:
    """F1: its children survive it, and the next step starts a new one."""
    first = await call(work.parent)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not exists(first))
    second = await call(work.parent)
    assert second != first
    assert await call(work.add, 1, 1) == 2


async def test_crashes_and_timeouts_are_reported(forkserver: ForkServer) -> None:
    """W8: the signal, the exit status, the time limit."""
    for function, args, said in (
        (work.segfault, (), "SIGSEGV"),
        (work.exit_hard, (7,), "status 7"),
    ):
        with pytest.raises(Transient, match=said):
            await call(function, *args)
    with pytest.raises(Transient, match=r"longer than 0\.2 s"):
        await call(time.sleep, 60, timeout=0.2)
    assert await call(work.add, 1, 1) == 2


async def test_close_ends_the_fork_server() -> None:
    """I10: no process is left."""
    opened = ForkServer()
    token = current_forkserver.set(opened)
    pid = await call(work.parent)
    current_forkserver.reset(token)
    await opened.close()
    assert not exists(pid)
    await opened.close()
