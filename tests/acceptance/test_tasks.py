"""`regente tasks …` and `regente enqueue`."""

from __future__ import annotations

from tests.acceptance.conftest import PIPELINES, Cli, SampleTasks


async def test_an_empty_list_says_what_to_do_next(cli: Cli) -> None:
    assert "No tasks yet. Enqueue one with: regente enqueue" in await cli.text("tasks", "list")
    assert await cli.json("tasks", "list") == []


async def test_list_shows_every_task_newest_first(cli: Cli, sample: SampleTasks) -> None:
    lines = (await cli.text("tasks", "list")).splitlines()
    assert [int(line.split()[0]) for line in lines[1:]] == [5, 4, 3, 2, 1]
    assert "LAYOUT" in lines[4]
    found = await cli.json("tasks", "list")
    assert [task["id"] for task in found] == [5, 4, 3, 2, 1]
    assert {task["status"] for task in found} == {"completed", "failed", "queued", "draft"}


async def test_list_is_filtered_and_paged(cli: Cli, sample: SampleTasks) -> None:
    async def ids(*words: str) -> list[int]:
        return [task["id"] for task in await cli.json("tasks", "list", *words)]

    assert await ids("--status", "failed") == [sample.flaky, sample.failed]
    assert await ids("--status", "failed", "--status", "draft") == [
        sample.draft,
        sample.flaky,
        sample.failed,
    ]
    assert await ids("--code", "LAYOUT") == [sample.failed]
    assert await ids("--batch", "monday") == [3, 2, 1]
    assert await ids("--pipeline", "other") == []
    assert await ids("--limit", "2", "--before", "4") == [3, 2]
    answer = await cli("tasks", "list", "--limit", "2")
    assert "--before 4" in answer.err
    assert "No task matches" in await cli.text("tasks", "list", "--code", "NONE")


async def test_show_lists_steps_failures_and_events_of_a_task(
    cli: Cli, sample: SampleTasks
) -> None:
    text = await cli.text("tasks", "show", str(sample.failed))
    for part in (
        '"url": "bad"',
        "MEASURE",
        "task_claimed",
        "LAYOUT",
        "Traceback",
        "page.html",
        "1 started, 1 failed",
    ):
        assert part in text
    assert "\x1b" not in text
    assert "[red]changed[/red]" in text
    document = await cli.json("tasks", "show", str(sample.failed))
    assert document["args"] == {"url": "bad"}
    assert [step["name"] for step in document["steps"]] == ["MEASURE"]
    assert document["events"][0]["event"] == "task_queued"
    assert document["failures"][0]["code"] == "LAYOUT"
    assert document["failures"][0]["snapshots"][0]["name"] == "page.html"


async def test_show_has_the_result_of_a_completed_task(cli: Cli, sample: SampleTasks) -> None:
    assert (await cli.json("tasks", "show", str(sample.completed)))["result"] == {"size": 4}
    assert '"size": 4' in await cli.text("tasks", "show", str(sample.completed))


async def test_why_answers_in_a_sentence_and_as_a_code(cli: Cli, sample: SampleTasks) -> None:
    assert "No living runner" in await cli.text("tasks", "why", str(sample.queued))
    answer = await cli.json("tasks", "why", str(sample.queued))
    assert (answer["id"], answer["code"]) == (sample.queued, "NO_RUNNER")


async def test_retry_puts_a_failed_task_back(cli: Cli, sample: SampleTasks) -> None:
    assert f"Task {sample.failed}: queued." in await cli.text("tasks", "retry", str(sample.failed))
    assert await cli.json("tasks", "retry", str(sample.flaky)) == [
        {"id": sample.flaky, "status": "queued"}
    ]
    assert (await sample.app.get(sample.failed)).status == "queued"


async def test_a_task_that_cannot_be_retried_does_not_stop_the_others(
    cli: Cli, sample: SampleTasks
) -> None:
    answer = await cli("tasks", "retry", str(sample.completed), str(sample.failed), "--json")
    assert answer.code == 1
    assert answer.data[0]["error"]["code"] == "ILLEGAL_TRANSITION"
    assert answer.data[1] == {"id": sample.failed, "status": "queued"}
    alone = await cli("tasks", "retry", str(sample.completed), "--json")
    assert (alone.code, alone.out, alone.error["code"]) == (1, "", "ILLEGAL_TRANSITION")


async def test_cancel_ends_a_waiting_task(cli: Cli, sample: SampleTasks) -> None:
    assert await cli.json("tasks", "cancel", str(sample.queued)) == [
        {"id": sample.queued, "status": "canceled"}
    ]
    assert "canceled" in await cli.text("tasks", "cancel", str(sample.draft))
    late = await cli("tasks", "cancel", str(sample.completed))
    assert late.code == 1
    assert late.err == f"error: task {sample.completed} is completed: there is nothing to cancel\n"


async def test_a_draft_waits_until_it_is_queued(cli: Cli, sample: SampleTasks) -> None:
    assert await cli.json("tasks", "queue", str(sample.draft)) == {
        "queued": [sample.draft],
        "not_drafts": [],
    }
    answer = await cli("tasks", "queue", str(sample.draft), "--json")
    assert (answer.code, answer.data["not_drafts"]) == (1, [sample.draft])


async def test_enqueue_stores_its_arguments(cli: Cli, sample: SampleTasks) -> None:
    words = (
        "--key",
        "k",
        "--priority",
        "7",
        "--run-at",
        "2090-01-01T00:00:00Z",
        "--batch",
        "tuesday",
    )
    stored = await cli.json("enqueue", "pages", '{"url": "new"}', *words)
    task = await sample.app.get(stored["id"])
    assert (task.args, task.key, task.priority, task.run_at.year) == ({"url": "new"}, "k", 7, 2090)
    assert (await sample.app.batch("tuesday")).total == 1
    again = await cli.json("enqueue", "pages", '{"url": "new"}', *words)
    assert again["id"] == stored["id"]
    assert (await cli.json("enqueue", "pages", "--draft"))["status"] == "draft"


async def test_enqueue_knows_the_pipelines_of_an_imported_module_and_checks_their_arguments(
    cli: Cli,
) -> None:
    good = await cli("enqueue", "matches", '{"match_id": 7}', "--import", str(PIPELINES))
    assert good.code == 0
    bad = await cli(
        "enqueue", "matches", '{"match_id": "seven"}', "--import", str(PIPELINES), "--json"
    )
    assert (bad.code, bad.error["code"]) == (2, "INVALID_ARGS")


async def test_a_signal_reaches_a_task_from_the_command_line(cli: Cli, sample: SampleTasks) -> None:
    waiting = str(sample.queued)
    assert "No task waits" in await cli.text("tasks", "waiting")
    text = await cli.text("tasks", "signal", waiting, "approval", '{"approved": true}')
    assert text.strip() == f"Task {waiting}: approval sent."
    again = ("tasks", "signal", waiting, "approval", "--key", "form 7")
    assert await cli.json(*again) == await cli.json(*again)
    assert "not valid JSON" in (await cli("tasks", "signal", waiting, "approval", "{")).err
    assert (await cli("tasks", "signal", "4711", "approval")).code == 1
    assert (await cli("tasks", "signal", str(sample.failed), "approval")).code == 1


async def test_enqueue_with_a_key_that_becomes_free_again(cli: Cli, sample: SampleTasks) -> None:
    put = ("enqueue", "pages", '{"url": "x"}', "--import", str(PIPELINES), "--key", "k")
    first = await cli.json(*put, "--unique", "24h")
    assert first["created"]
    again = await cli.json(*put, "--unique", "1d", "--on-conflict", "replace")
    assert (again["id"], again["created"]) == (first["id"], False)
    assert "which has the key" in await cli.text(*put)
    taken = await cli(*put, "--on-conflict", "error", "--json")
    assert (taken.code, taken.error["code"]) == (1, "ALREADY_ENQUEUED")
    await cli.text("tasks", "cancel", str(first["id"]))
    assert (await cli.json(*put, "--unique", "until_done"))["created"]


async def test_change_a_queued_task(cli: Cli, sample: SampleTasks) -> None:
    queued, done = str(sample.queued), str(sample.completed)
    words = ("--priority", "5", "--run-at", "2040-01-01T00:00:00Z", "--args", '{"url": "other"}')
    assert f"Task {queued}: changed." in await cli.text("tasks", "change", queued, *words)
    document = await cli.json("tasks", "show", queued)
    assert (document["priority"], document["args"]) == (5, {"url": "other"})
    assert document["run_at"].startswith("2040-01-01")
    (event,) = [one for one in document["events"] if one["event"] == "task_changed"]
    assert event["details"]["by"].startswith("cli:")
    await cli.text("tasks", "change", queued, "--run-at", "now")
    refused = await cli("tasks", "change", done, "--priority", "1", "--json")
    assert (refused.code, refused.error["code"]) == (1, "ILLEGAL_TRANSITION")
    nothing = await cli("tasks", "change", queued, "--json")
    assert (nothing.code, nothing.error["code"]) == (2, "USAGE")


async def test_actions_on_all_that_match_are_previewed_and_confirmed(
    cli: Cli, sample: SampleTasks
) -> None:
    """O18: a dry run changes nothing and is not in the audit log."""
    every = ("tasks", "retry", "--pipeline", "pages", "--status", "failed")
    text = await cli.text(*every, "--dry-run")
    assert "2 tasks match (2 failed); retry would change 2 of them." in text
    preview = await cli.json(*every, "--dry-run")
    assert (preview["would_change"], preview["sample"]) == (2, [sample.flaky, sample.failed])
    asked = await cli(*every, "--json")
    assert (asked.code, asked.error["code"]) == (2, "CONFIRMATION_NEEDED")
    assert await cli.json(*every, "--yes") == {"action": "retry", "changed": 2}
    everywhere = ("tasks", "change", "--all", "--priority", "3", "--yes")
    assert "change: 4 tasks." in await cli.text(*everywhere)
    monday = ("tasks", "cancel", "--batch", "monday", "--yes")
    assert await cli.json(*monday) == {"action": "cancel", "changed": 2}
    assert await cli.json(*monday) == {"action": "cancel", "changed": 0}
    done = await sample.app.feed()
    audited = [one.details for one in done if one.event == "operator_action"]
    assert [one["action"] for one in audited] == [
        "tasks.retry",
        "tasks.change",
        "tasks.cancel",
        "tasks.cancel",
    ]


async def test_tasks_are_chosen_by_ids_or_by_options(cli: Cli, sample: SampleTasks) -> None:
    for words in (
        ("cancel",),
        ("cancel", "1", "--all"),
        ("cancel", "1", "--dry-run"),
        ("retry", "1", "--code", "X"),
        ("change", "--all"),
        ("change", "--all", "--args", "{}"),
    ):
        answer = await cli("tasks", *words, "--json")
        assert (answer.code, answer.error["code"]) == (2, "USAGE"), words
