"""The nursery: a process per isolated step without a start per step, and the long way where it
cannot serve."""

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


async def test_each_step_has_a_process_of_its_own_from_one_nursery(forkserver: ForkServer) -> None:
    """W8, W9: nothing of one step is left for the next."""
    pids = [await call(work.pid) for _ in range(20)]
    assert len({*pids, os.getpid()}) == 21
    assert await call(work.parent) == await call(work.parent)
    assert [await call(work.count_up) for _ in range(2)] == [1, 1]


async def test_a_module_with_threads_is_run_the_long_way(forkserver: ForkServer) -> None:
    """A fork among threads may never wake up."""
    assert await call(threaded_work.threads) == 2
    assert await call(work.add, 2, 3) == 5


async def test_a_nursery_that_was_killed_is_replaced(forkserver: ForkServer) -> None:
    """F1: its children are unharmed by its death, and the next step has a new one."""
    first = await call(work.parent)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not exists(first))
    second = await call(work.parent)
    assert second != first
    assert await call(work.add, 1, 1) == 2


async def test_crashes_and_timeouts_are_told_as_ever(forkserver: ForkServer) -> None:
    """W8: which signal, which status, how long."""
    for function, args, said in (
        (work.segfault, (), "SIGSEGV"),
        (work.exit_hard, (7,), "status 7"),
    ):
        with pytest.raises(Transient, match=said):
            await call(function, *args)
    with pytest.raises(Transient, match=r"longer than 0\.2 s"):
        await call(time.sleep, 60, timeout=0.2)
    assert await call(work.add, 1, 1) == 2


async def test_it_goes_when_it_is_closed() -> None:
    """I10: nothing is left behind."""
    opened = ForkServer()
    token = current_forkserver.set(opened)
    pid = await call(work.parent)
    current_forkserver.reset(token)
    await opened.close()
    assert not exists(pid)
    await opened.close()
