"""`regente dead …`."""

from __future__ import annotations

import json
from typing import Any

from regente import Fatal, Regente, Task
from regente.engine.pipeline import Registry
from tests.acceptance.conftest import Cli, SampleTasks


async def test_an_empty_list_says_so(cli: Cli) -> None:
    assert "No dead letters" in await cli.text("dead", "list")
    assert "No dead letters" in await cli.text("dead", "list", "--by-code")
    assert await cli.json("dead", "list") == []


async def test_list_shows_them_one_by_one_or_by_code(cli: Cli, sample: SampleTasks) -> None:
    assert [task["id"] for task in await cli.json("dead", "list")] == [
        sample.flaky,
        sample.failed,
    ]
    assert [task["id"] for task in await cli.json("dead", "list", "--code", "LAYOUT")] == [
        sample.failed
    ]
    groups = await cli.json("dead", "list", "--by-code")
    assert {(group["code"], group["tasks"]) for group in groups} == {("LAYOUT", 1), ("HTTP_503", 1)}
    assert "HTTP_503" in await cli.text("dead", "list", "--by-code")
    assert "no answer" in await cli.text("dead", "list")


async def test_show_gives_the_snapshot_of_what_was_seen(cli: Cli, sample: SampleTasks) -> None:
    """Z4: dead letters keep the error and the HTML snapshot."""
    assert "page.html" in await cli.text("dead", "show", str(sample.failed))
    assert (await cli.json("dead", "show", str(sample.failed)))["failures"][0][
        "message"
    ].startswith("the layout")
    assert (
        await cli.text("dead", "show", str(sample.failed), "--snapshot", "page.html")
        == "<html>\x1b[31mbad</html>"
    )
    assert (
        await cli.text("tasks", "show", str(sample.failed), "--snapshot", "page.html")
        == "<html>\x1b[31mbad</html>"
    )
    missing = await cli("dead", "show", str(sample.failed), "--snapshot", "x", "--json")
    assert missing.error == {
        "code": "NOT_FOUND",
        "message": "there is no snapshot 'x'; known: page.html",
    }


async def test_show_refuses_a_task_that_is_no_dead_letter(cli: Cli, sample: SampleTasks) -> None:
    answer = await cli("dead", "show", str(sample.completed), "--json")
    assert (answer.code, answer.error["code"]) == (1, "ILLEGAL_TRANSITION")


async def test_retry_takes_ids_a_code_or_a_pipeline(cli: Cli, sample: SampleTasks) -> None:
    assert await cli.json("dead", "retry", str(sample.failed)) == {"requeued": [sample.failed]}
    assert await cli.json("dead", "retry", "--code", "HTTP_503") == {"requeued": [sample.flaky]}
    assert "0 dead letters back" in await cli.text("dead", "retry", "--pipeline", "pages")


async def test_an_action_on_all_needs_a_confirmation(cli: Cli, sample: SampleTasks) -> None:
    refused = await cli("dead", "retry", "--all", "--json")
    assert (refused.code, refused.error["code"]) == (2, "CONFIRMATION_NEEDED")
    assert "add --yes" in (await cli("dead", "discard", "--all")).err
    assert (await sample.app.get(sample.failed)).status == "failed"
    assert await cli.json("dead", "retry", "--all", "--yes") == {
        "requeued": [sample.failed, sample.flaky]
    }


async def test_discard_cancels_dead_letters(cli: Cli, sample: SampleTasks) -> None:
    assert "1 dead letter discarded." in await cli.text("dead", "discard", str(sample.failed))
    assert await cli.json("dead", "discard", "--all", "--yes") == {"discarded": [sample.flaky]}
    assert (await sample.app.get(sample.failed)).status == "canceled"


async def test_naming_none_or_one_that_is_not_dead_is_an_error(
    cli: Cli, sample: SampleTasks
) -> None:
    assert (await cli("dead", "retry")).code == 2
    assert (await cli("dead", "retry", "1", "--all")).code == 2
    answer = await cli("dead", "retry", str(sample.completed), "--json")
    assert (answer.code, answer.error["code"]) == (1, "ILLEGAL_TRANSITION")


async def test_secrets_of_a_task_are_hidden_on_the_command_line(
    cli: Cli, app: Regente, registry: Registry
) -> None:
    """O18, Z4: in arguments, events, the error, its details and its stack, as text and as JSON."""
    secret = "canary-7f3a9c"

    @registry.pipeline("leaky")
    async def leaky(task: Task[Any]) -> None:
        await task.event("seen", headers={"x-api-key": secret})
        raise Fatal(
            f"refused: https://x/?api_key={secret}",
            code="REFUSED",
            details={"authorization": f"Bearer {secret}"},
        )

    task_id = await app.enqueue("leaky", {"password": secret, "url": f"https://a:{secret}@x/"})
    await app.run(until_idle=True)
    for words in (
        ("dead", "list"),
        ("dead", "show", str(task_id)),
        ("tasks", "show", str(task_id)),
        ("tasks", "list"),
        ("events", "--limit", "100"),
    ):
        shown = await cli.text(*words) + json.dumps(await cli.json(*words))
        assert str(task_id) in shown
        assert secret not in shown, words
