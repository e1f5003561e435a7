"""`regente.sync.Regente`: the asynchronous client's methods, for threads that wait."""

from __future__ import annotations

import ast
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from regente import (
    AlreadyEnqueued,
    DatabaseUnavailable,
    Enqueued,
    InvalidArgs,
    InvalidInput,
    NotFound,
    Task,
)
from regente.engine.client import Client
from regente.engine.lane_operations import LaneOperations
from regente.engine.pipeline import Registry
from regente.engine.task_selection import TaskSelection
from regente.sync import Lanes, Regente, Selection
from tests.support.eventually import eventually


class PriceArgs(BaseModel):
    product: str


@pytest.fixture
def app(database_url: str, registry: Registry) -> Iterator[Regente]:
    with Regente(database_url, pipelines=registry) as opened:
        yield opened


def sessions(url: str) -> int:
    """The client's connections to the database."""
    with psycopg.connect(url, application_name="counting") as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'regente%'"
        ).fetchone()
        assert row is not None
        return int(row[0])


@pytest.mark.parametrize(
    ("blocking", "asynchronous"),
    [(Regente, Client), (Lanes, LaneOperations), (Selection, TaskSelection)],
)
def test_it_has_every_method_with_the_same_parameters(blocking: type, asynchronous: type) -> None:
    """A method that the asynchronous client gets is missing here until it is named."""
    methods = {
        name: method
        for name, method in vars(asynchronous).items()
        if inspect.iscoroutinefunction(method) and not name.startswith("_") and name != "stop"
    }
    assert methods
    for name, method in methods.items():
        found = getattr(blocking, name)
        assert not inspect.iscoroutinefunction(found), name
        assert inspect.signature(found) == inspect.signature(method), name
        assert found.__doc__ == method.__doc__


def test_a_program_without_an_event_loop_enqueues_and_looks(
    app: Regente, registry: Registry
) -> None:
    @registry.pipeline("prices", args=PriceArgs)
    async def prices(task: Task[PriceArgs]) -> None: ...

    made: Enqueued = prices.enqueue(app, PriceArgs(product="chair"), key="k", batch="b")
    assert (made, made.created) == (1, True)
    assert app.enqueue_many("prices", [{"product": "a"}, {"product": "b"}]) == [2, 3]
    assert app.get(made).args == {"product": "chair"}
    assert app.batch("b").total == 1
    assert app.counts()["queued"] == 3
    assert app.cancel(2) == "canceled"
    assert [one.name for one in app.lanes.list()] == []
    assert app.select_tasks(statuses=["queued"]).preview("cancel").would_change == 2
    assert app.select_tasks(statuses=["canceled"]).retry() == 1
    assert "No living runner" in app.why(made).summary
    with pytest.raises(TimeoutError):
        app.wait(made, timeout=0.01)


def test_errors_are_those_of_the_client(app: Regente, registry: Registry) -> None:
    @registry.pipeline("prices", args=PriceArgs)
    async def prices(task: Task[PriceArgs]) -> None: ...

    with pytest.raises(NotFound):
        app.get(7)
    with pytest.raises(InvalidArgs, match="product"):
        app.enqueue("prices", {})
    app.enqueue("prices", {"product": "a"}, key="k")
    with pytest.raises(AlreadyEnqueued):
        app.enqueue("prices", {"product": "a"}, key="k", on_conflict="error")
    with pytest.raises(InvalidInput, match="in SQL"):
        app.enqueue("prices", {"product": "a"}, connection=object())  # type: ignore[arg-type]


def test_an_unreachable_database_is_told_at_the_first_call() -> None:
    """And tried again at the next."""
    app = Regente("postgresql://127.0.0.1:9/nothing?connect_timeout=1")
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            app.counts()
    assert "regente" not in [thread.name for thread in threading.enumerate()]


def test_many_threads_share_one_client(database_url: str, registry: Registry) -> None:
    """Opened once, by whichever thread is first."""

    @registry.pipeline("p")
    async def run(task: Task) -> None: ...

    app = Regente(database_url, pipelines=registry)
    with ThreadPoolExecutor(16) as threads:
        ids = list(threads.map(lambda n: app.enqueue("p", {"n": n}), range(200)))
    assert sorted(ids) == list(range(1, 201))
    assert [thread.name for thread in threading.enumerate()].count("regente") == 1
    app.close()
    assert "regente" not in [thread.name for thread in threading.enumerate()]
    eventually(lambda: sessions(database_url) == 0)


def test_a_closed_client_opens_again(database_url: str, registry: Registry) -> None:
    app = Regente(database_url, pipelines=registry)
    for _ in range(2):
        assert app.counts()["queued"] == 0
        app.close()
    app.close()


def test_a_call_from_its_own_thread_is_refused(app: Regente) -> None:
    """It would wait for itself."""

    async def inside(_: Any) -> str:
        with pytest.raises(InvalidInput, match="wait for itself"):
            app.counts()
        return "refused"

    assert app._opened().run(inside) == "refused"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_is_cancelled(app: Regente, registry: Registry) -> None:
    """Ctrl-C in a script that waits."""

    @registry.pipeline("p")
    async def run(task: Task) -> None: ...

    task_id = app.enqueue("p")
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        app.wait(task_id)
    timer.join()
    assert app.get(task_id).status == "queued"


FORKS = """
import os, sys
from regente.engine.pipeline import Registry
from regente.sync import Regente

registry = Registry()
registry.declare("p")
app = Regente(sys.argv[1], pipelines=registry)
ids = [int(app.enqueue("p"))]
read, write = os.pipe()
for _ in range(2):
    child = os.fork()
    if child == 0:
        os.write(write, b"%d " % app.enqueue("p"))
        app.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
ids += [int(n) for n in os.read(read, 100).split()]
ids.append(int(app.enqueue("p")))
print(ids)
"""


def test_forked_processes_have_connections_of_their_own(database_url: str) -> None:
    """A server that forks its workers after it has loaded the program."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, database_url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ast.literal_eval(done.stdout) == [1, 2, 3, 4]


ENDS = """
import sys
from regente.engine.pipeline import Registry
from regente.sync import Regente

registry = Registry()
registry.declare("p")
app = Regente(sys.argv[1], pipelines=registry)
app.enqueue_many("p", [{}] * 5)
"""


def test_a_program_ends_without_closing_it(database_url: str) -> None:
    """Its hints are sent and its connections are closed."""
    with psycopg.connect(database_url, autocommit=True) as listening:
        listening.execute("LISTEN regente_queued")
        done = subprocess.run(
            [sys.executable, "-c", ENDS, database_url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        heard = next(listening.notifies(timeout=30))
        assert heard.payload.startswith("p 0 ")
    eventually(lambda: sessions(database_url) == 0)
