"""Regente is a durable job engine for large scraping and batch jobs, on PostgreSQL."""

from regente.app import Regente
from regente.engine.errors import (
    Blocked,
    DatabaseUnavailable,
    Fatal,
    IllegalTransition,
    InvalidArgs,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    RegenteError,
    SchemaOutdated,
    Skip,
    TaskError,
    Throttled,
    Transient,
    UnknownPipeline,
)
from regente.engine.pipeline import pipeline
from regente.engine.retry import Retry, hours, minutes, seconds
from regente.engine.task import Task

__all__ = [
    "Blocked",
    "DatabaseUnavailable",
    "Fatal",
    "IllegalTransition",
    "InvalidArgs",
    "InvalidInput",
    "NotFound",
    "PayloadTooLarge",
    "Regente",
    "RegenteError",
    "Retry",
    "SchemaOutdated",
    "Skip",
    "Task",
    "TaskError",
    "Throttled",
    "Transient",
    "UnknownPipeline",
    "hours",
    "minutes",
    "pipeline",
    "seconds",
]
