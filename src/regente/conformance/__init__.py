"""Does a worker or a writer keep its side of the contract? Asks it over HTTP, and reports check by
check.

Knows `regente.contracts` only: any service may be examined, ours or another's.
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
