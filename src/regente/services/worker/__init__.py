"""The reference worker: scrapes a source through a proxy, one job at a time, on the contract of the
original specification."""

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
