"""Regente is a durable job engine for large scraping and batch jobs, on PostgreSQL."""

from regente.app import Regente
from regente.engine.database import TaskConnection
from regente.engine.errors import (
    AlreadyEnqueued,
    Blocked,
    ChildrenFailed,
    DatabaseUnavailable,
    Fatal,
    IllegalTransition,
    InvalidArgs,
    InvalidInput,
    LaneBusy,
    NotFound,
    PayloadTooLarge,
    RegenteError,
    SchemaOutdated,
    SignalTimeout,
    Skip,
    TaskError,
    Throttled,
    Transient,
    UnknownOutcome,
    UnknownPipeline,
)
from regente.engine.heartbeat import heartbeat
from regente.engine.lanes import Lane, LaneLimits
from regente.engine.models import Child, TaskFailed
from regente.engine.pipeline import pipeline
from regente.engine.retry import Retry, days, hours, minutes, seconds
from regente.engine.task import Task
from regente.engine.uniqueness import Enqueued

__all__ = [
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
]
