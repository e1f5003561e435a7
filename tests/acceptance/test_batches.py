"""`regente batches …`."""

from __future__ import annotations

from tests.acceptance.conftest import Cli, SampleTasks


async def test_an_empty_list_says_what_to_do_next(cli: Cli) -> None:
    assert "No batches yet. Create one with: regente enqueue" in await cli.text("batches", "list")
    assert await cli.json("batches", "list") == []


async def test_a_batch_has_counts_that_add_up(cli: Cli, sample: SampleTasks) -> None:
    """Batches are shown by id and by name, and every accepted task is counted."""
    (batch,) = await cli.json("batches", "list")
    assert (batch["name"], batch["status"], batch["total"]) == ("monday", "completed", 3)
    assert (batch["completed"], batch["failed"], batch["balanced"]) == (1, 2, True)
    assert await cli.json("batches", "show", "monday") == await cli.json(
        "batches", "show", str(batch["id"])
    )
    assert "3 (the counts add up)" in await cli.text("batches", "show", "monday")
    assert "monday" in (await cli.text("batches", "list")).splitlines()[1]


async def test_resume_says_when_there_is_nothing_to_resume(cli: Cli, sample: SampleTasks) -> None:
    answer = await cli.json("batches", "resume", "monday")
    assert (answer["resumed"], answer["reason"]) == (
        False,
        "the batch is completed: there is nothing to resume",
    )
    assert "Nothing changed" in await cli.text("batches", "resume", "monday")


async def test_reprocess_takes_a_code_an_id_or_all(cli: Cli, sample: SampleTasks) -> None:
    assert await cli.json("batches", "reprocess", "monday", "--code", "LAYOUT") == {
        "requeued": [sample.failed]
    }
    assert await cli.json("batches", "reprocess", "monday", "--id", str(sample.completed)) == {
        "requeued": []
    }
    assert "1 task back in the queue." in await cli.text("batches", "reprocess", "monday")
    assert "nothing changed" in await cli.text("batches", "reprocess", "monday")


async def test_cancel_ends_the_rest(cli: Cli, sample: SampleTasks) -> None:
    await sample.app.retry(sample.failed)
    assert await cli.json("batches", "cancel", "monday") == {"canceled": 1, "canceling": 0}
    assert (await sample.app.batch("monday")).status == "canceled"
    assert "0 tasks canceled" in await cli.text("batches", "cancel", "monday")


async def test_an_unknown_batch_is_an_error(cli: Cli) -> None:
    for words in (("show",), ("resume",), ("reprocess",), ("cancel",)):
        answer = await cli("batches", *words, "nowhere", "--json")
        assert (answer.code, answer.error["code"]) == (1, "NOT_FOUND")
    assert (await cli("batches", "show", "77")).err == "error: there is no batch 77\n"
