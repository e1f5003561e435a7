"""Surveys the queue: the known levels from where nothing is seen yet, and rarely everything.

A survey of everything steps over the index entries of all tasks that were claimed since the last
vacuum, however many another session's old snapshot keeps. So it gets a small part of the time; when
it is slow it runs beside the claims.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from regente.engine import log
from regente.engine.cancellation import cancel_all
from regente.engine.database import FOREVER
from regente.engine.priority_levels import FoundLevel, PriorityLevels, Survey
from regente.engine.task_store import TaskStore

EVERY_SECONDS = 1.0  # how old a survey of everything may be, if the next one is fast
SLOW_SECONDS = 0.02
PAUSE_FACTOR = 50  # a slow one may take a fiftieth of the time
MAX_EVERY_SECONDS = 300.0


class Surveyor:
    """`changed` is called when a survey beside the claims has found tasks."""

    def __init__(
        self,
        pipelines: Sequence[str],
        levels: PriorityLevels,
        store: Callable[[], TaskStore],
        changed: Callable[[], None],
    ) -> None:
        self._pipelines = list(pipelines)
        self._levels = levels
        self._store = store
        self._changed = changed
        self._surveyed_at = -FOREVER
        self._surveyed_all_at = -FOREVER
        self._took_seconds = 0.0
        self._beside: asyncio.Task[None] | None = None

    @property
    def age_seconds(self) -> float:
        return time.monotonic() - self._surveyed_at

    @property
    def is_wanted(self) -> bool:
        """Whether the next claim should wait for a survey: a task came back to a place before the
        floors, and a survey of everything is fast."""
        return self._levels.is_unsure and self._is_due() and self._took_seconds <= SLOW_SECONDS

    @property
    def due_in_seconds(self) -> float:
        """When the next survey of everything may be, if there may be tasks that only it finds."""
        return self._pause_left_seconds() if self._levels.is_unsure else FOREVER

    async def survey(self, *, all_levels: bool = False) -> None:
        """With `all_levels` everything; else what is due to be surveyed."""
        if all_levels or (self._is_due() and self._took_seconds <= SLOW_SECONDS):
            survey = self._levels.begin()
            self._levels.learn_all(survey, await self._search_all(survey))
        else:
            if self._is_due() and (self._beside is None or self._beside.done()):
                self._beside = asyncio.create_task(self._survey_beside(), name="survey")
            survey = self._levels.begin()
            self._levels.learn(survey, await self._search_known(survey))
        self._surveyed_at = time.monotonic()

    async def stop(self) -> None:
        if self._beside is not None:
            await cancel_all([self._beside])

    def _is_due(self) -> bool:
        age_seconds = time.monotonic() - self._surveyed_all_at
        wanted = self._levels.is_unsure or age_seconds > EVERY_SECONDS
        return wanted and self._pause_left_seconds() <= 0

    def _pause_left_seconds(self) -> float:
        pause_seconds = min(self._took_seconds * PAUSE_FACTOR, MAX_EVERY_SECONDS)
        return max(0.0, self._surveyed_all_at + pause_seconds - time.monotonic())

    async def _survey_beside(self) -> None:
        survey = self._levels.begin()
        try:
            found = await self._search_all(survey)
        except Exception as error:
            log.sweep_failed("survey", error)
        else:
            self._levels.learn_more(survey, found)
            if self._levels.next_due_at <= time.monotonic():
                self._changed()

    async def _search_all(self, survey: Survey) -> list[FoundLevel]:
        self._levels.is_unsure = False
        try:
            found, self._took_seconds = await self._store().survey(self._pipelines)
        except BaseException:
            self._levels.abandon(survey)
            raise
        self._surveyed_all_at = time.monotonic()
        return found

    async def _search_known(self, survey: Survey) -> list[FoundLevel]:
        try:
            return await self._store().survey_levels(self._levels.known())
        except BaseException:
            self._levels.abandon(survey)
            raise
