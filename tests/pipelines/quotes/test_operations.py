"""The checkpoint manager's six operations in the engine's API, as docs/pipelines/quotes.md says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from regente import Fatal, Regente, Task, Transient
from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "quotes.md"
OPERATIONS = (
    "can_resume",
    "get_resume_checkpoint",
    "start_processing",
    "save_checkpoint",
    "update_heartbeat",
    "complete_processing",
)


def test_the_page_maps_each_operation_to_an_existing_function() -> None:
    """Q7: no operation is missing."""
    rows = dict(
        re.findall(r"^\| `(\w+)\(quote.*?\)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    )
    assert tuple(rows) == OPERATIONS
    for operation, here in rows.items():
        named = re.findall(r"(task|client)\.(\w+)", here)
        assert named, operation
        for owner, name in named:
            assert hasattr(Task if owner == "task" else Client, name), (operation, name)


async def test_each_operation_does_what_the_page_says(app: Regente, registry: Registry) -> None:
    """Q7: from inside the task and from outside, over two attempts."""
    seen: list[dict[str, Any]] = []
    calls: list[str] = []

    async def analyse() -> str:
        calls.append("analysed")
        return "a chair"

    @registry.pipeline("operations", retry=Retry(max_attempts=3, first=0.0))
    async def operations(task: Task[dict[str, Any]]) -> str:
        begun = await app.get(task.id)
        seen.append(
            {
                "can_resume": task.resumed,
                "done": await task.done("AI_ANALYSIS_DONE"),
                "checkpoint": begun.checkpoint,
                "attempt": begun.attempt,
                "started": begun.started_at,
                "runner": begun.runner,
                "heartbeat": begun.heartbeat_at,
            }
        )
        item = await task.step("AI_ANALYSIS_DONE", analyse)
        if not task.resumed:
            await task.progress(0.3, checkpoint="SHOPPING_SEARCH_START")
            raise Transient("the connection is lost")
        await task.heartbeat()
        if task.args.get("fail"):
            raise Fatal("not to be priced", code="NO_PRICE")
        return item

    good, bad = await app.enqueue("operations", {}), await app.enqueue("operations", {"fail": True})
    await app.run(until_idle=True)
    firsts, seconds = (
        [one for one in seen if one["attempt"] == 1],
        [one for one in seen if one["attempt"] == 2],
    )
    for one in firsts:
        assert (one["can_resume"], one["done"], one["checkpoint"]) == (False, False, None)
        assert None not in (one["started"], one["runner"], one["heartbeat"])
    for one in seconds:
        assert (one["can_resume"], one["done"], one["checkpoint"]) == (
            True,
            True,
            "SHOPPING_SEARCH_START",
        )
    assert (len(firsts), len(seconds), len(calls)) == (2, 2, 2)
    ended, failed = await app.get(good), await app.get(bad)
    assert (ended.status, ended.result, ended.finished_at is not None) == (
        "completed",
        "a chair",
        True,
    )
    assert (failed.status, failed.error_code) == ("failed", "NO_PRICE")
