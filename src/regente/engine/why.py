"""Explains why a task is not running, or what it does."""

from __future__ import annotations

from typing import Any

from regente.engine.intents import described
from regente.engine.models import Why

_WAITS = {
    "task_sleeping": "it sleeps",
    "task_throttled": "it was throttled and waits",
    "task_retried": "its last attempt failed and it waits to be tried again",
    "task_stalled": "its last attempt stalled and it waits to be tried again",
}


def explain(row: dict[str, Any]) -> Why:
    code, summary = _answer(row)
    details = {name: value for name, value in row.items() if name != "held"}
    return Why(code=code, summary=summary, details=details)


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
    if row["held"] and row["unknown_step"]:
        told = described(
            row["unknown_step"], row["unknown_item"], row["unknown_at"], row["unknown_attempt"]
        )
        return "UNKNOWN_OUTCOME", f"It waits for a decision: {told}."
    if row["awaited_signal"]:
        return "WAITING_FOR_SIGNAL", _awaited(row)
    if row["awaited_batch"]:
        return "WAITING_FOR_CHILDREN", (
            f"It waits for the tasks that it spawned: {row['children_ended']} of "
            f"{row['children']} have ended (batch {row['awaited_batch']})."
        )
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
    return _why_due(row)


def _why_due(row: dict[str, Any]) -> tuple[str, str]:
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
    if row["lane"] is not None and (found := _why_in_lane(row)):
        return found
    if row["busy"] >= row["slots"]:
        return (
            "BUSY",
            f"All {row['slots']} slots of {row['runners']} runner(s) are taken; {_ahead(row)}.",
        )
    return "NEXT", f"It is due and will be claimed in a moment; {_ahead(row)}."


def _why_in_lane(row: dict[str, Any]) -> tuple[str, str] | None:
    """What the task's lane waits for; None when it does not wait for a limit."""
    lane, before = f"The lane {row['lane']}", _before(row)
    if row["lane_parked"]:
        until = row["lane_parked_until"]
        when = f"{until:%Y-%m-%d %H:%M:%S %Z}" if until else "it is opened"
        return (
            "LANE_PARKED",
            f"{lane} is parked until {when}: {row['lane_parked_because']}; {before}.",
        )
    if row["lane_breaker_state"] == "probing":
        return "LANE_PROBING", f"{lane} has failed and is tried with one task; {before}."
    running, limit = row["lane_running"], row["lane_concurrency"]
    rate = row["lane_rate"]
    if limit is not None and running >= limit:
        estimate = _estimate(row["lane_ahead"], row["lane_per_second"])
        return "LANE_FULL", f"{lane} is full: {running} of {limit} running, {before}{estimate}."
    if rate is not None and row["lane_ahead"] > 0:
        estimate = _estimate(row["lane_ahead"], rate)
        return "LANE_RATE", f"{lane} starts {rate:g} tasks per second: {before}{estimate}."
    return None


def _call_waits(row: dict[str, Any]) -> str:
    """What the lane of the task's call has no place for."""
    lane, before = f"the lane {row['awaited_lane']}", f"{row['calls_ahead']} calls before it"
    if row["lane_parked"]:
        return f"{lane} is parked: {row['lane_parked_because']}; {before}"
    if row["lane_breaker_state"] == "probing":
        return f"{lane} has failed and is tried with one call; {before}"
    running, limit = row["lane_running"], row["lane_concurrency"]
    if limit is not None and running >= limit:
        return f"{lane} is full: {running} of {limit} running, {before}"
    if row["lane_rate"] is not None:
        return f"{lane} starts {row['lane_rate']:g} per second, {before}"
    return f"{lane}, {before}"


def _before(row: dict[str, Any]) -> str:
    count = row["lane_ahead"]
    return "more than 10,000 before you" if count > 10_000 else f"{count} before you"


def _estimate(ahead: int, per_second: float | None) -> str:
    if not per_second or ahead > 10_000:
        return ""
    seconds = (ahead + 1) / per_second
    if seconds < 120:
        return f", about {seconds:.0f} s"
    return (
        f", about {seconds / 60:.0f} min" if seconds < 7200 else f", about {seconds / 3600:.0f} h"
    )


def _awaited(row: dict[str, Any]) -> str:
    until = row["awaited_until"]
    limit = f", until {until:%Y-%m-%d %H:%M:%S %Z}" if until else ""
    return (
        f"It waits for the signal {row['awaited_signal']}{limit}: send it with "
        f"`regente tasks signal {row['id']} {row['awaited_signal']} JSON`."
    )


def _ahead(row: dict[str, Any]) -> str:
    count = row["ahead"] if row["lane"] is None else row["lane_ahead"]
    return (
        "more than 10,000 tasks are ahead of it"
        if count > 10_000
        else f"{count} tasks are ahead of it"
    )


def _lost(row: dict[str, Any], where: str) -> str:
    name, until = row["runner"] or row["runner_id"], row["lease_until"]
    ended = f", whose lease ended at {until:%H:%M:%S %Z}" if until else ""
    next_one = (
        "it goes back to the queue soon"
        if row["runners"]
        else "no living runner serves its pipeline: start one with `regente run`"
    )
    return f"It was running{where} in runner {name}{ended}; {next_one}."


def _why_running(row: dict[str, Any]) -> tuple[str, str]:
    where = f" at {row['checkpoint']}" if row["checkpoint"] else ""
    if not row["runner_alive"]:
        return "RUNNER_LOST", _lost(row, where)
    held = f"runner {row['runner']} holds it until {row['lease_until']:%H:%M:%S %Z}"
    if row["awaited_lane"]:
        return "WAITING_FOR_LANE", f"It runs{where} and waits with a call: {_call_waits(row)}."
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
