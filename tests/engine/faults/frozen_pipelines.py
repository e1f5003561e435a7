"""A pipeline that freezes its runner inside a transaction, for `test_frozen_runners.py`."""

from __future__ import annotations

import os
import signal

from regente import Retry, Task, pipeline


@pipeline("frozen.sells", retry=Retry(max_attempts=1), stall_after=None)
async def sells(task: Task) -> str:
    """Would fail for good if it had to wait for the lock of another attempt."""
    async with task.transaction() as connection:
        await connection.execute("SET LOCAL lock_timeout = '100ms'")
        await connection.execute("UPDATE public.stock SET left_over = left_over - 1")
        if task.attempt == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
    return f"sold at attempt {task.attempt}"
