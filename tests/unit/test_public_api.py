"""The pinned public API: a change to it changes this file."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import regente
from regente import Regente, Retry, Task, pipeline
from regente.engine import errors
from regente.engine.pipeline import Registry

NAMES = {
    "AlreadyEnqueued",
    "Blocked",
    "Child",
    "ChildrenFailed",
    "DatabaseUnavailable",
    "Enqueued",
    "Fatal",
    "IllegalTransition",
    "InvalidArgs",
    "InvalidInput",
    "Lane",
    "LaneBusy",
    "LaneLimits",
    "NotFound",
    "PayloadTooLarge",
    "Regente",
    "RegenteError",
    "Retry",
    "SchemaOutdated",
    "SignalTimeout",
    "Skip",
    "Task",
    "TaskConnection",
    "TaskError",
    "TaskFailed",
    "Throttled",
    "Transient",
    "UnknownOutcome",
    "UnknownPipeline",
    "days",
    "heartbeat",
    "hours",
    "minutes",
    "pipeline",
    "seconds",
}

REGENTE = {
    "enqueue": "pipeline, args, key, priority, run_at, batch, max_attempts, draft, lane, "
    "unique, on_conflict, connection",
    "enqueue_many": "pipeline, args, keys, priority, run_at, batch, "
    "max_attempts, draft, lane, connection",
    "queue": "ids, by, connection",
    "release": "ids, connection",
    "get": "task_id",
    "wait": "task_id, timeout",
    "children": "task_id, limit",
    "tasks": "pipeline, statuses, batch_id, code, before_id, limit",
    "counts": "pipeline",
    "why": "task_id",
    "steps": "task_id, limit",
    "task_events": "task_id, limit",
    "attempts": "task_id, limit",
    "failures": "task_id, limit",
    "snapshot": "failure_id, name",
    "runners": "everyone, limit",
    "feed": "after, limit",
    "cancel": "task_id, by",
    "cancel_many": "ids, by",
    "change": "task_id, args, by, changes",
    "change_many": "ids, by, changes",
    "select_tasks": "chosen",
    "retry": "task_id, by",
    "retry_many": "ids, by",
    "discard": "ids, by",
    "signal": "task_id, name, payload, key, by, connection",
    "waiting": "task_id, signal, limit",
    "decisions": "task_id, limit",
    "resolve": "task_id, step, item, retry, result, by",
    "pause": "pipeline, by",
    "resume": "pipeline, by",
    "pipelines": "",
    "open_batch": "name, stall_after, max_resumes, details, on_complete",
    "batches": "limit",
    "batch": "batch",
    "resume_batch": "batch, by",
    "reprocess_batch": "batch, codes, ids, by",
    "cancel_batch": "batch, by",
    "schedule": "name, pipeline, cron, args, timezone, priority, lane, overlap, catch_up, "
    "jitter, due_as",
    "unschedule": "name",
    "schedules": "",
    "pause_schedule": "name, by",
    "resume_schedule": "name, skip_missed, by",
    "schedule_runs": "name, before, limit",
    "next_runs": "name, count",
    "run": "pipelines, concurrency, until_idle, name",
    "stop_running": "",
    "watch": "",
    "conduct": "pipelines",
    "conduct_missions": "",
}

TASK = {
    "step": "name, function, args, isolated, timeout, memory_mb, aliases, on_unknown, lane, kwargs",
    "each": "name, items, function, concurrency, isolated, timeout, memory_mb, aliases, "
    "on_unknown, checkpoint, lane",
    "transact": "name, function, args, aliases, kwargs",
    "transaction": "name, aliases",
    "sleep": "seconds",
    "progress": "fraction, checkpoint",
    "heartbeat": "",
    "event": "name, connection, details",
    "in_lane": "lane",
    "hold": "reason, error",
    "snapshot": "name, body, content_type",
    "skip": "reason",
    "done": "step",
    "idempotency_key": "step",
}


def parameters(function: Any) -> str:
    return ", ".join(name for name in inspect.signature(function).parameters if name != "self")


def test_the_package_exports_exactly_these_names() -> None:
    """The contract's names, each importable."""
    assert set(regente.__all__) == NAMES
    assert all(hasattr(regente, name) for name in NAMES)
    assert regente.__all__ == sorted(regente.__all__)


@pytest.mark.parametrize("name", REGENTE)
def test_the_methods_of_regente(name: str) -> None:
    """Q7: Their parameters by name and in order; most options are keyword-only."""
    assert parameters(getattr(Regente, name)) == REGENTE[name]


@pytest.mark.parametrize("name", TASK)
def test_the_methods_of_a_task(name: str) -> None:
    """Q7: The pipeline author's view."""
    assert parameters(getattr(Task, name)) == TASK[name]


def test_the_attributes_of_a_task() -> None:
    """Q1: what a pipeline can read about its task."""
    for name in ("id", "pipeline", "attempt", "tries", "resumed", "args", "batch_id"):
        assert isinstance(getattr(Task, name), property), name
    assert "context" in Task.__slots__


def test_the_contracts_defaults() -> None:
    """`enqueue(…, key=None, priority=0, run_at=None, batch=None)`, keyword-only options."""
    found = inspect.signature(Regente.enqueue).parameters
    assert {name: found[name].default for name in ("key", "priority", "run_at", "batch")} == {
        "key": None,
        "priority": 0,
        "run_at": None,
        "batch": None,
    }
    assert found["key"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(Regente).parameters["database_url"].default is None
    assert set(inspect.signature(pipeline).parameters) >= {
        "name",
        "args",
        "retry",
        "stall_after",
        "timeout",
    }
    assert set(inspect.signature(Retry).parameters) == {
        "max_attempts",
        "first",
        "factor",
        "maximum",
        "jitter",
    }


def test_every_error_has_a_stable_code() -> None:
    """Codes are part of the contract."""
    codes = {
        kind.__name__: kind.code
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, errors.RegenteError)
    }
    assert codes == {
        "TimelineOver": "TIMELINE_OVER",
        "UnknownPosition": "UNKNOWN_POSITION",
        "RegenteError": "REGENTE",
        "InvalidInput": "INVALID_INPUT",
        "UnknownPipeline": "UNKNOWN_PIPELINE",
        "InvalidArgs": "INVALID_ARGS",
        "PayloadTooLarge": "PAYLOAD_TOO_LARGE",
        "NotFound": "NOT_FOUND",
        "IllegalTransition": "ILLEGAL_TRANSITION",
        "AlreadyEnqueued": "ALREADY_ENQUEUED",
        "DatabaseUnavailable": "DATABASE_UNAVAILABLE",
        "RowLocked": "ROW_LOCKED",
        "StatementTimeout": "STATEMENT_TIMEOUT",
        "SchemaOutdated": "SCHEMA_OUTDATED",
        "TaskError": "TASK_ERROR",
        "Transient": "TRANSIENT",
        "Blocked": "BLOCKED",
        "Throttled": "THROTTLED",
        "LaneBusy": "LANE_BUSY",
        "Fatal": "FATAL",
        "SignalTimeout": "SIGNAL_TIMEOUT",
        "ChildrenFailed": "CHILDREN_FAILED",
        "Skip": "SKIPPED",
        "UnknownOutcome": "UNKNOWN_OUTCOME",
    }


def test_control_flow_is_no_exception() -> None:
    """I3: `except Exception` in a pipeline cannot swallow it."""
    for kind in (errors.LeaseLost, errors.Suspended):
        assert issubclass(kind, errors.ControlFlow)
        assert not issubclass(kind, Exception)


@pytest.mark.parametrize("name", ["", "a b", "ä", "-a", "a" * 101, "a/b", "a\x00"])
def test_an_invalid_pipeline_name_is_refused(name: str) -> None:
    """F15: at import, not at run time."""
    with pytest.raises(ValueError, match="cannot name a pipeline"):
        Registry().pipeline(name)


def test_a_pipeline_is_an_async_function() -> None:
    """A mistake that is found at import."""
    with pytest.raises(TypeError, match="must be an `async def` function"):
        Registry().pipeline("p")(lambda task: None)  # type: ignore[arg-type,return-value]


def test_two_pipelines_of_one_name_are_refused_but_a_reload_is_not() -> None:
    """The second definition must be the same function."""
    registry = Registry()

    async def one(task: Task) -> None: ...

    async def other(task: Task) -> None: ...

    registry.pipeline("p")(one)
    registry.pipeline("p")(one)
    with pytest.raises(ValueError, match="two pipelines are called 'p'"):
        registry.pipeline("p")(other)
