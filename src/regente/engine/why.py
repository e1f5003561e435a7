"""Explains why a task is not running, or what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_WAITS = {
    "task_sleeping": "it sleeps",
    "task_throttled": "it was throttled and waits",
    "task_retried": "its last attempt failed and it waits to be tried again",
    "task_stalled": "its last attempt stalled and it waits to be tried again",
}


@dataclass(frozen=True, slots=True)
class Why:
    code: str
    summary: str
    details: dict[str, Any]

    def __str__(self) -> str:
        return self.summary


def explain(row: dict[str, Any]) -> Why:
    code, summary = _answer(row)
    return Why(code, summary, {name: value for name, value in row.items() if name != "held"})


def _answer(row: dict[str, Any]) -> tuple[str, str]:
    status = row["status"]
    if status == "queued":
        return _why_waiting(row)
    if status == "running":
        return _why_running(row)
    if status == "draft":
        return "DRAFT", "It is a draft in the bank and not queued yet."
    if status == "failed":
        tries = f"{row['tries']} failed attempts, {row['crashes']} crashes"
        return (
            "DEAD",
            (
                f"It is a dead letter after {tries}: {row['error_code']}: "
                f"{row['error_message']}. Retry or discard it."
            ),
        )
    return status.upper(), f"It is {status}."


def _why_waiting(row: dict[str, Any]) -> tuple[str, str]:
    if row["held"]:
        return "HELD", "It is held back until it is released."
    if row["due_in_seconds"] > 0:
        reason = _WAITS.get(row["last_event"], "it is scheduled")
        cause = (
            f" (last error {row['error_code']}: {row['error_message']})"
            if row["error_code"] and row["tries"]
            else ""
        )
        return (
            "WAITING",
            (
                f"It waits until {row['run_at']:%Y-%m-%d %H:%M:%S %Z}, "
                f"{row['due_in_seconds']:.0f} s: {reason}{cause}."
            ),
        )
    if row["paused"]:
        return "PAUSED", f"The pipeline {row['pipeline']} is paused."
    if row["runners"] == 0:
        return (
            "NO_RUNNER",
            (
                f"No living runner serves the pipeline {row['pipeline']}: start one with "
                "`regente run`."
            ),
        )
    if row["crashes"] >= 2:
        return "SUSPECT", "Its runner died twice while it was running: it waits to be run alone."
    if row["busy"] >= row["slots"]:
        return (
            "BUSY",
            f"All {row['slots']} slots of {row['runners']} runner(s) are taken; {_ahead(row)}.",
        )
    return "NEXT", f"It is due and will be claimed in a moment; {_ahead(row)}."


def _ahead(row: dict[str, Any]) -> str:
    count = row["ahead"]
    return (
        "more than 10,000 tasks are ahead of it"
        if count > 10_000
        else f"{count} tasks are ahead of it"
    )


def _why_running(row: dict[str, Any]) -> tuple[str, str]:
    where = f" at {row['checkpoint']}" if row["checkpoint"] else ""
    held = (
        (
            f"runner {row['runner'] or row['runner_id']} holds it until "
            f"{row['lease_until']:%H:%M:%S %Z}"
        )
        if row["lease_until"]
        else "its runner is gone"
    )
    if row["cancel_requested_at"]:
        return "CANCELING", f"It runs{where} and was asked to end; {held}."
    if row["stall_after_seconds"] and row["silent_seconds"] > row["stall_after_seconds"]:
        return (
            "STALLED",
            (
                f"It shows no progress{where} for {row['silent_seconds']:.0f} s and will be "
                f"taken back; {held}."
            ),
        )
    return (
        "RUNNING",
        f"It runs{where}, last heartbeat {row['silent_seconds']:.0f} s ago; {held}.",
    )
