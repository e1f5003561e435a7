"""The reference worker (specification, 9.1): scrapes a source, one job at a time."""

from regente.services.worker.app import STORAGE_PREFIX, create_app
from regente.services.worker.settings import WorkerSettings
from regente.services.worker.source import Page, Source, SourceFailed, SourceSession

__all__ = [
    "STORAGE_PREFIX",
    "Page",
    "Source",
    "SourceFailed",
    "SourceSession",
    "WorkerSettings",
    "create_app",
]
