"""Named places where a test kills the process, to prove that a crash there loses and doubles
nothing.

Armed by the environment: `REGENTE_CRASH_POINT=name`, or `name:n` for the n-th passage. Without it
each call costs one comparison. The process gets SIGKILL, so no cleanup runs. With
`REGENTE_CRASH_SIGNAL=SIGSTOP` it is frozen instead, and wakes as a zombie after another runner took
over.
"""

from __future__ import annotations

import os
import signal

CRASH_POINTS = (
    "enqueue.before_commit",
    "enqueue.committed",
    "change.committed",
    "register.committed",
    "lease.renewed",
    "claim.committed",
    "claim.lanes_committed",
    "lanes.before_report",
    "lanes.entered",
    "lanes.before_leave",
    "mark.committed",
    "intent.committed",
    "step.before_record",
    "step.recorded",
    "transaction.before_commit",
    "transaction.committed",
    "sleep.committed",
    "signal.received",
    "children.spawned",
    "children.recorded",
    "finish.before",
    "finish.committed",
    "settle.before",
    "settle.committed",
    "locked.committed",
    "stall.settled",
    "lost.committed",
    "reap.committed",
    "schedule.before_commit",
    "schedule.fired",
    "batch.closed",
    "drain.handed_back",
    "migrate.statement",
)

_armed, _, _count = os.environ.get("REGENTE_CRASH_POINT", "").partition(":")
_passages_left = int(_count or 1)
_signal = signal.Signals[os.environ.get("REGENTE_CRASH_SIGNAL", "SIGKILL")]


def crash_point(name: str) -> None:
    global _passages_left  # noqa: PLW0603 - a process dies once
    if not _armed or name != _armed:
        return
    _passages_left -= 1
    if _passages_left == 0:
        os.kill(os.getpid(), _signal)
