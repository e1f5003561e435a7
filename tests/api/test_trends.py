"""Data of the charts: queue depth over time, retries by cause, sessions."""

from __future__ import annotations

from regente import Regente, Retry, Task, Transient
from regente.engine.pipeline import Registry
from tests.api.conftest import Served, body_of


async def test_an_empty_system_has_a_flat_line(api: Served) -> None:
    """O19: an empty database is no error, and the time grid is complete."""
    found = body_of(await api.viewer.get("/api/trends"))
    assert {point["waiting"] for point in found["depth"]} == {0}
    assert 59 <= len(found["depth"]) <= 61
    assert (found["retries"], found["sessions"]) == ([], [])


async def test_depth_follows_what_enters_and_leaves_the_queue_and_retries_have_causes(
    api: Served, app: Regente, registry: Registry
) -> None:
    """O19: the last point is the current depth; a claim, a cancel and a retry change it."""

    @registry.pipeline("flaky", retry=Retry(max_attempts=2, first=0, factor=1))
    async def flaky(task: Task[None]) -> None:
        if task.attempt == 1:
            raise Transient("try again", code="NAPPED")

    ids = [await app.enqueue("flaky") for _ in range(3)]
    assert body_of(await api.viewer.get("/api/trends"))["depth"][-1]["waiting"] == 3
    await app.cancel(ids[2])
    assert body_of(await api.viewer.get("/api/trends"))["depth"][-1]["waiting"] == 2
    await app.run(until_idle=True)
    found = body_of(await api.viewer.get("/api/trends", params={"window_seconds": 60}))
    assert found["bucket_seconds"] == 1
    assert [point["waiting"] for point in found["depth"]][-1] == 0
    assert found["depth"][0]["waiting"] == 0, "before the first came, none waited"
    assert [(one["cause"], one["count"]) for one in found["retries"]] == [("NAPPED", 2)]
