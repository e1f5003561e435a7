"""What a runner knows about the queue: the priority levels of each pipeline that have tasks, where
to search in each, and when the next task is due."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regente.engine.database import FOREVER

# A place in a level: `run_at` in seconds of the database's time, and a task's id, because tasks of
# one transaction have the same `run_at`.
Place = tuple[float, int]
BEGINNING: Place = (-FOREVER, 0)
END: Place = (FOREVER, 0)
# A task's `run_at` is the start of the transaction that stored it. Tasks of transactions that take
# longer to commit are found by their hint, or by a survey of everything.
MARGIN_SECONDS = 1.0
KEEPS_PLACE_ATTEMPTS = 10  # a task that comes back more often waits behind those that never ran
HELD_SECONDS = 1000 * 365.25 * 86_400  # a held task is not due by itself


def rank_of(priority: int, attempt: int) -> int:
    """The level of a queued task: of each priority the tasks that ran before come first, because
    they are older. `regente.claim_rank` in the database."""
    return 2 * priority + (1 <= attempt <= KEEPS_PLACE_ATTEMPTS)


class FoundLevel(NamedTuple):
    """What a survey found of a priority level, in the database's time, in seconds: the `run_at` of
    its first task. A pipeline without tasks has no rank, an empty level no first task."""

    pipeline: str
    rank: int | None
    first: float | None
    now: float
    first_id: int | None = 0


class LevelRequest(NamedTuple):
    """One level for a claim: up to `limit` tasks from `floor` on."""

    pipeline: str
    rank: int
    floor: Place
    limit: int


@dataclass(slots=True)
class Level:
    """`floor` is where claims search from, `unseen_from` where the next survey has to: some tasks
    between them may have been committed after the last survey."""

    floor: Place
    unseen_from: Place
    due_at: float

    def lower(self, first: Place, due_at: float) -> None:
        """There is a task at this place, due at this monotonic time."""
        self.floor = min(self.floor, first)
        self.unseen_from = min(self.unseen_from, first)
        self.due_at = min(self.due_at, due_at)


class Hint(NamedTuple):
    pipeline: str
    rank: int
    due_at: float
    first: float


class Survey:
    """A survey under way. Hints that come during it are newer than what it finds."""

    def __init__(self, now: float) -> None:
        self.began = now  # the database's time at the survey before
        self.heard: list[Hint] = []


class PriorityLevels:
    """Filled by surveys and hints. Only levels with a due task are claimed from, so that a claim
    costs nothing for a pipeline without any."""

    def __init__(self, pipelines: Sequence[str]) -> None:
        self._levels: dict[str, dict[int, Level]] = {name: {} for name in pipelines}
        self._nothing_before = dict.fromkeys(pipelines, BEGINNING)
        self._names = list(pipelines)
        self._turn = 0
        self._now = -FOREVER
        self._asked: dict[tuple[str, int], Place] = {}
        self._surveys: list[Survey] = []
        self.is_unsure = True
        """Whether there may be tasks in places where only a survey of everything finds them."""

    @property
    def next_due_at(self) -> float:
        first = min((level.due_at for _, _, level in self._all()), default=FOREVER)
        return first if first < HELD_SECONDS else FOREVER

    # Hints.

    def hear(self, pipeline: str, rank: int, due_seconds: float, first: float = FOREVER) -> None:
        """Note a task that is due in so many seconds, with this `run_at` if it is known."""
        if pipeline not in self._levels:
            return
        hint = Hint(pipeline, rank, time.monotonic() + due_seconds, first)
        for survey in self._surveys:
            survey.heard.append(hint)
        self._note(hint)

    def _note(self, hint: Hint) -> None:
        start = self._nothing_before[hint.pipeline]
        levels = self._levels[hint.pipeline]
        levels.setdefault(hint.rank, Level(start, start, FOREVER)).lower(
            (hint.first, 0), hint.due_at
        )

    # Claims.

    def ask_for(self, room: dict[str, int]) -> list[LevelRequest]:
        """The levels for the next claim: highest rank first in each pipeline; the pipelines take
        turns to be first, so that none starves another."""
        self._turn = (self._turn + 1) % len(self._names)
        now = time.monotonic()
        asked = [
            LevelRequest(name, rank, levels[rank].floor, room[name])
            for name in self._names[self._turn :] + self._names[: self._turn]
            if (levels := self._levels[name])
            for rank in sorted(levels, reverse=True)
            if levels[rank].due_at <= now
        ]
        self._asked = {(level.pipeline, level.rank): level.floor for level in asked}
        return asked

    def claimed(self, tasks: Iterable[tuple[str, int, Place]]) -> None:
        """The next claim searches after these tasks, which have a pipeline, rank and place. A
        survey does not: one before them may have been locked, or is committed only now."""
        for pipeline, rank, place in tasks:
            level = self._levels[pipeline].get(rank)
            if level is not None and place > level.floor:
                level.floor = place

    @property
    def has_news(self) -> bool:
        """Whether a task is due where the last claim did not search."""
        now = time.monotonic()
        return any(
            level.due_at <= now and level.floor < self._asked.get((name, rank), END)
            for name, rank, level in self._all()
        )

    # Surveys.

    def begin(self) -> Survey:
        survey = Survey(self._now)
        self._surveys.append(survey)
        return survey

    def abandon(self, survey: Survey) -> None:
        """Discard a survey that failed."""
        self._surveys.remove(survey)
        self.is_unsure = True

    def known(self) -> list[tuple[str, int, Place]]:
        """Pipeline, rank, and from where to survey, of each level."""
        return [(name, rank, level.unseen_from) for name, rank, level in self._all()]

    def learn(self, survey: Survey, found: Sequence[FoundLevel]) -> None:
        """The known levels were searched, except those of paused pipelines."""
        self._end(survey, found)
        self._forget_what_is_due()
        for level in found:
            if level.rank is not None:
                self._levels[level.pipeline][level.rank] = _level_of(level)
        self._hear_again(survey)

    def learn_all(self, survey: Survey, found: Sequence[FoundLevel]) -> None:
        """Everything was searched, except paused pipelines."""
        self._end(survey, found)
        self._forget_what_is_due()
        for pipeline in {level.pipeline for level in found}:
            self._levels[pipeline] = {}
        for level in found:
            self._nothing_before[level.pipeline] = (level.now - MARGIN_SECONDS, 0)
            if level.rank is not None:
                self._levels[level.pipeline][level.rank] = _level_of(level)
        self._hear_again(survey)

    def learn_more(self, survey: Survey, found: Sequence[FoundLevel]) -> None:
        """Everything was searched, while others surveyed the known levels. Their surveys are newer:
        this one tells of unknown levels, and of tasks before the place where they begin."""
        self._end(survey, found)
        self._forget_empty_levels(found)
        for level in found:
            self._nothing_before[level.pipeline] = (level.now - MARGIN_SECONDS, 0)
            if level.rank is None or level.first is None:
                continue
            known = self._levels[level.pipeline].get(level.rank)
            if known is None:
                self._levels[level.pipeline][level.rank] = _level_of(level)
            elif (level.first, level.first_id or 0) < known.unseen_from:
                known.lower((level.first, level.first_id or 0), _level_of(level).due_at)
        self._hear_again(survey)

    def _end(self, survey: Survey, found: Sequence[FoundLevel]) -> None:
        self._surveys.remove(survey)
        if not found:
            return
        if found[0].now < survey.began - MARGIN_SECONDS:
            self._clock_went_back()
        self._now = found[0].now

    def _forget_what_is_due(self) -> None:
        for _, _, level in self._all():
            level.due_at = FOREVER

    def _forget_empty_levels(self, found: Sequence[FoundLevel]) -> None:
        full = {(level.pipeline, level.rank) for level in found}
        for name in {level.pipeline for level in found}:
            self._levels[name] = {
                rank: level
                for rank, level in self._levels[name].items()
                if level.due_at < FOREVER or (name, rank) in full
            }

    def _hear_again(self, survey: Survey) -> None:
        for hint in survey.heard:
            self._note(hint)

    def _clock_went_back(self) -> None:
        """The database's clock went back: new tasks may lie before every floor."""
        self._nothing_before = dict.fromkeys(self._names, BEGINNING)
        for _, _, level in self._all():
            level.lower(BEGINNING, level.due_at)
        self.is_unsure = True

    def _all(self) -> Iterator[tuple[str, int, Level]]:
        for name, levels in self._levels.items():
            for rank, level in levels.items():
                yield name, rank, level


def _level_of(found: FoundLevel) -> Level:
    """A first task that is due is the place to claim from. Before that, an earlier one may become
    due."""
    recent = (found.now - MARGIN_SECONDS, 0)
    if found.first is None:
        return Level(recent, recent, FOREVER)
    due_at = time.monotonic() + found.first - found.now
    if found.first > found.now:
        return Level(recent, recent, due_at)
    first = (found.first, found.first_id or 0)
    return Level(first, min(first, recent), due_at)
