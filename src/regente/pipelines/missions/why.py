"""Explains why a mission is not running: no worker, no proxy, stopped, rate-limited, …"""

from __future__ import annotations

from typing import Any

from regente.engine.models import Why


def explain_waiting(status: str, row: dict[str, Any], engine: Why) -> Why:
    """The engine's reason, unless the mission waits for the fleet, which the engine does not
    know."""
    if engine.code == "HELD" or (engine.code in ("NEXT", "NO_RUNNER") and status == "queued"):
        code, summary = _waits_for(row)
        return Why(code=code, summary=summary, details=row)
    if status == "running" and row["checkpoint"] == "armazenamento":
        found = _waits_for_writer(row)
        if found is not None:
            return Why(code=found[0], summary=found[1], details=row)
    return engine


def _waits_for_writer(row: dict[str, Any]) -> tuple[str, str] | None:
    if row["writer_error"]:
        summary = (
            f"Its writer may have its job, and does not answer well ({row['writer_error']}). It is "
            "asked again; another one gets the job if that lasts."
        )
        return "WRITER_FAILS", summary
    if row["writer_id"] is not None:
        return None
    if not row["active_writers"]:
        errors = f" ({row['writer_errors']})" if row["writer_errors"] else ""
        return (
            "NO_WRITER",
            f"Its ads wait to be stored, and no writer is active{errors}: add or activate one.",
        )
    if not row["healthy_writers"]:
        at = row["next_writer_at"]
        again = f"; the next one is tried at {at:%Y-%m-%d %H:%M:%S %Z}" if at else ""
        summary = (
            f"Its ads wait to be stored, and all {row['active_writers']} active writers fail "
            f"({row['writer_errors']}){again}."
        )
        return "WRITERS_FAIL", summary
    return None


def _waits_for(row: dict[str, Any]) -> tuple[str, str]:
    if row["rate_limited"]:
        return (
            "RATE_LIMITED",
            (
                "The target limits the rate of requests: the mission waits until "
                f"{row['not_before']:%Y-%m-%d %H:%M:%S %Z}."
            ),
        )
    if row["state"] != "open":
        who = f" ({row['stopped_by']} stopped it)" if row["stopped_by"] else ""
        return (
            "STOPPED",
            f"The orchestrator is {row['state']}{who}: start it with `regente orchestrator start`.",
        )
    if row["paused"]:
        return (
            "PAUSED",
            "The pipeline missions is paused: resume it with `regente pipelines resume missions`.",
        )
    if not row["runners"]:
        return "NO_RUNNER", "No runner is alive that runs missions: start one with `regente run`."
    if not row["active_workers"]:
        return "NO_WORKER", "No worker is active: add or activate one with `regente fleet`."
    if not row["active_proxies"]:
        return "NO_PROXY", "No proxy is active: add or activate one with `regente fleet`."
    if row["breaker"]:
        return (
            "PROXIES_FAIL",
            "Most proxies fail: the target may be down. One worker at a time tries again.",
        )
    if not row["ready_workers"] and not row["free_proxies"]:
        return "NO_FREE_PROXY", f"All {row['active_proxies']} proxies are in use; {_ahead(row)}."
    if row["failing_workers"] == row["active_workers"]:
        return (
            "WORKERS_FAIL",
            f"All {row['active_workers']} active workers fail to start a session; {_ahead(row)}.",
        )
    busy = (
        f"{row['scraping_workers']} of {row['active_workers']} workers are busy, "
        f"{row['ready_workers']} ready"
    )
    return "WAITS_FOR_WORKER", f"It waits for a worker: {busy}; {_ahead(row)}."


def _ahead(row: dict[str, Any]) -> str:
    count = row["ahead"]
    return (
        "more than 10,000 missions are ahead of it"
        if count > 10_000
        else f"{count} missions are ahead of it"
    )
