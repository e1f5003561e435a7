"""Checks over HTTP whether a worker or a writer keeps the contract, and reports per check.

Imports `regente.contracts` only: any service can be examined.
"""

from regente.conformance.report import Finding, Report, Verdict
from regente.conformance.worker import WorkerOptions, examine_worker
from regente.conformance.writer import WriterOptions, examine_writer

__all__ = [
    "Finding",
    "Report",
    "Verdict",
    "WorkerOptions",
    "WriterOptions",
    "examine_worker",
    "examine_writer",
]
