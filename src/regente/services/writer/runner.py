"""Claims jobs, several at once, and renews their leases. On stop it hands its jobs back."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import psycopg

from regente.services.writer.config import WriterConfig
from regente.services.writer.failures import LeaseLost
from regente.services.writer.job_run import JobRun
from regente.services.writer.jobs import Job, Jobs

logger = logging.getLogger("regente.writer")

_RENEWALS_PER_LEASE = 4
_DELETE_SECONDS = 3600.0


class Runner:
    def __init__(self, jobs: Jobs, job_run: JobRun, config: WriterConfig) -> None:
        self._jobs = jobs
        self._job_run = job_run
        self._config = config
        self._active: dict[str, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()
        self._stopping = False
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loops = (self._claim_loop(), self._renew_leases(), self._delete_old_jobs())
        self._loops = [asyncio.create_task(loop) for loop in loops]

    def wake(self) -> None:
        """Wake the claim loop: a job was accepted, or a slot is free."""
        self._woken.set()

    async def stop(self) -> None:
        self._stopping = True
        self.wake()
        claim_loop, *others = self._loops
        await claim_loop
        for task in (*others, *self._active.values()):
            task.cancel()
        await asyncio.gather(*others, *self._active.values(), return_exceptions=True)

    async def _claim_loop(self) -> None:
        while not self._stopping:
            try:
                await self._claim_some()
            except psycopg.Error as error:
                logger.warning("the database does not answer: %s", type(error).__name__)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._config.poll_seconds)
            self._woken.clear()

    async def _claim_some(self) -> None:
        while len(self._active) < self._config.concurrent_jobs and not self._stopping:
            job = await self._jobs.claim()
            if job is None:
                return
            task = asyncio.create_task(self._run(job), name=f"writer job {job.job_id}")
            self._active[job.job_id] = task

    async def _run(self, job: Job) -> None:
        try:
            await self._job_run.run(job)
        except LeaseLost:
            logger.warning("job %s: another writer has its lease", job.job_id)
        except asyncio.CancelledError:
            await self._hand_back(job)
            raise
        except psycopg.Error as error:
            logger.warning(
                "job %s: paused, the database does not answer: %s",
                job.job_id,
                type(error).__name__,
            )
        except Exception:
            # The lease expires and the job is claimed again, a bounded number of times.
            logger.exception("job %s: failed unexpectedly", job.job_id)
        finally:
            del self._active[job.job_id]
            self.wake()

    async def _hand_back(self, job: Job) -> None:
        try:
            await self._jobs.hand_back(job)
            logger.info("job %s: handed back at row %d", job.job_id, job.processed)
        except psycopg.Error:
            logger.warning("job %s: could not be handed back; its lease will expire", job.job_id)

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._config.lease_seconds / _RENEWALS_PER_LEASE)
            if self._active:
                with contextlib.suppress(psycopg.Error):
                    await self._jobs.renew(list(self._active))

    async def _delete_old_jobs(self) -> None:
        while True:
            with contextlib.suppress(psycopg.Error):
                await self._jobs.delete_old()
            await asyncio.sleep(_DELETE_SECONDS)
