"""The content of log lines, from any logger."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import structlog

from regente.logs import adopt_structlog, configure_logs
from regente.redaction import HIDDEN

LOGGER = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers, root.level
    yield
    root.handlers, root.level = before
    structlog.reset_defaults()


def fail() -> None:
    try:
        raise ValueError("no price")
    except ValueError:
        LOGGER.exception("bad page")


def test_a_line_is_json_with_its_own_fields_before_those_of_its_task_and_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S7, Z7: one object per line; `event`, `level`, `logger` and `timestamp` are always
    present."""
    configure_logs(log_format="json", fields={"runner": "r1", "task": 0, "event": "no"})
    LOGGER.info(
        "read %s",
        "é",
        extra={"task": 2, "task_context": {"task": 1, "match_id": 77}, "level": "no", "of": {1}},
    )
    line = json.loads(capsys.readouterr().err)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "read é",
        "level": "info",
        "logger": "shop",
        "runner": "r1",
        "task": 2,
        "match_id": 77,
        "of": "{1}",
        "workerId": "r1",
        "jobId": 2,
        "jobType": None,
        "attempts": None,
        "status": "running",
        "durationMs": None,
    }


def test_an_exception_is_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """S7: one record is one line."""
    configure_logs(log_format="json")
    fail()
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"]) == ("bad page", "error")
    assert line["exception"].endswith("ValueError: no price")


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Security: control characters are escaped; multi-line texts are indented below."""
    configure_logs(log_format="text")
    LOGGER.warning(
        "title \x1b[2J",
        extra={"url": "http://a", "said": "\x1b]0;x\x07", "words": "two words", "stack": "a\nb"},
    )
    text = capsys.readouterr().err
    first, *below = text.splitlines()
    assert (
        first.partition(" ")[2]
        == r"warning  title \x1b[2J url=http://a said='\x1b]0;x\x07' words='two words'"
    )
    assert below == ["  a", "  b"]
    fail()
    assert "\n  Traceback" in capsys.readouterr().err


def test_an_exceptions_text_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """O22: what others made it say stays below the line that tells of it."""
    configure_logs(log_format="text")
    try:
        raise ValueError("no job 'x'\n12:00:00 info     admin signed in\r\u2028also")
    except ValueError:
        LOGGER.exception("failed")
    first, *below = capsys.readouterr().err.splitlines()
    assert "error    failed" in first
    assert [line for line in below if not line.startswith("  ")] == []
    assert any("admin signed in" in line for line in below)


def test_structlog_writes_the_same_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Z7: any field name works, also names that `logging` reserves; the level filters."""
    configure_logs(log_format="json", level="warning", fields={"runner": "r1"})
    adopt_structlog()
    log: Any = structlog.get_logger("shop.pages")
    log.info("too little to say")
    try:
        raise ValueError("no price")
    except ValueError:
        log.exception("100% bad", name="Ana", args=[1])
    line = json.loads(capsys.readouterr().err)
    wanted = {
        "event": "100% bad",
        "logger": "shop.pages",
        "level": "error",
        "name": "Ana",
        "args": [1],
        "runner": "r1",
    }
    assert wanted.items() <= line.items()
    assert line["exception"].endswith("ValueError: no price")


def test_logs_work_without_structlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """structlog is optional."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    before = structlog.get_config()
    adopt_structlog()
    assert structlog.get_config() == before


def test_a_message_is_one_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    """S7: a line break in what a client sent does not begin a line of its own."""
    configure_logs(log_format="text")
    LOGGER.warning("job %s: done", "7\n12:00:00 info     job 8: done\r", extra={"job": "a\nb"})
    out = capsys.readouterr().err
    assert out.count("\n") == 1
    assert "\r" not in out


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_secrets_are_hidden_in_every_part_of_a_line(
    capsys: pytest.CaptureFixture[str], log_format: Literal["json", "text"]
) -> None:
    """O18: in the message, in fields by their names and shapes, and in a stack."""
    configure_logs(log_format=log_format)
    secret = "canary-7f3a9c"
    try:
        raise ValueError(f"no answer of postgresql://ana:{secret}@db/x?password={secret}")
    except ValueError:
        LOGGER.exception(
            "calling %s", f"https://x/?api_key={secret}", extra={"of": {"api_key": secret}}
        )
    line = capsys.readouterr().err
    assert secret not in line
    assert HIDDEN in line or "\\u2022" in line
