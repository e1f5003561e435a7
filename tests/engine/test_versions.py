"""Which version of the code runners have, and which one ran an attempt."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

import pytest

from regente import Regente, Retry, Task, Transient
from regente.engine.code_version import package_version, versions_of
from regente.engine.pipeline import Pipeline, Registry
from regente.settings import Settings
from tests.engine.helpers import running
from tests.support.eventually import eventually_async

SOON = Retry(max_attempts=3, first=0.01, jitter=False)


async def nothing(task: Task) -> None:
    """Of a module that no package has installed."""


def code(given: str | None, *, fails: bool) -> Registry:
    """The code of a deploy."""
    found = Registry()

    @found.pipeline("p", version=given, retry=SOON)
    async def run(task: Task) -> str | None:
        if fails:
            raise Transient("not yet")
        return given

    return found


@contextlib.asynccontextmanager
async def deployed(url: str, settings: Settings, registry: Registry) -> AsyncIterator[Regente]:
    async with Regente(url, settings=settings, pipelines=registry) as app, running(app):
        yield app


def test_a_version_is_given_or_that_of_the_package() -> None:
    """Q12: a plain file has none."""
    installed = Pipeline("installed", Registry.select)  # type: ignore[arg-type]
    pipelines = [
        Pipeline("given", nothing, version="2026-03-10+a1b2c3"),
        Pipeline("plain", nothing),
        installed,
    ]
    expected = {"given": "2026-03-10+a1b2c3", "installed": version("regente")}
    assert versions_of(pipelines) == expected


def test_a_package_may_have_another_name_than_its_distribution() -> None:
    assert package_version("_pytest") == version("pytest")
    assert package_version("no_such_package") is None


@pytest.mark.parametrize("wrong", ["", "a b", "x" * 101, "a\x00", "ä"])
def test_a_version_is_a_visible_text(wrong: str) -> None:
    """F15."""
    with pytest.raises(ValueError, match="version of 'p' is a text of 1 to 100"):
        code(wrong, fails=False)


async def test_an_attempt_tells_the_version_that_ran_it(
    app: Regente, database_url: str, settings: Settings
) -> None:
    """Q12: begun by one deploy, finished by the next; runners and pipelines show theirs."""
    async with deployed(database_url, settings, code("1.0", fails=True)) as old:
        task_id = await old.enqueue("p", max_attempts=100)

        async def tried() -> bool:
            return bool(await app.failures(task_id))

        await eventually_async(tried)
    async with deployed(database_url, settings, code("1.1", fails=False)):

        async def done() -> bool:
            return (await app.get(task_id)).status == "completed"

        await eventually_async(done)
        [runner] = await app.runners()
        assert runner.versions == {"p": "1.1"}
        assert [one["versions"] for one in await app.pipelines()] == [["1.1"]]
    found = await app.attempts(task_id)
    assert [one.attempt for one in found] == list(range(len(found), 0, -1))
    assert (found[0].version, found[-1].version) == ("1.1", "1.0")
    assert (await app.get(task_id)).result == "1.1"
    assert [one["versions"] for one in await app.pipelines()] == [[]]


async def test_without_a_version_nothing_is_told(
    app: Regente, database_url: str, settings: Settings
) -> None:
    async with deployed(database_url, settings, code(None, fails=False)) as one:
        task_id = await one.enqueue("p")

        async def done() -> bool:
            return (await app.get(task_id)).status == "completed"

        await eventually_async(done)
        assert [runner.versions for runner in await app.runners()] == [{}]
    [attempt] = await app.attempts(task_id)
    assert (attempt.version, attempt.attempt) == (None, 1)
    assert await app.attempts(task_id + 1) == []
