"""What a runner knows about the queue, from surveys and hints."""

from __future__ import annotations

import time

from regente.engine.database import FOREVER
from regente.engine.priority_levels import (
    BEGINNING,
    MARGIN_SECONDS,
    FoundLevel,
    LevelRequest,
    PriorityLevels,
)

NOW = 1_000_000.0
ROOM = {"p": 10, "q": 10}


def levels_after(*found: FoundLevel) -> PriorityLevels:
    levels = PriorityLevels(["p", "q"])
    levels.learn_all(levels.begin(), found)
    return levels


def test_only_levels_with_a_due_task_are_claimed_from() -> None:
    """From the first task on, higher priorities first."""
    levels = levels_after(
        FoundLevel("p", 0, NOW - 60, NOW),
        FoundLevel("p", 5, NOW - 30, NOW),
        FoundLevel("p", 1, NOW + 60, NOW),
        FoundLevel("q", None, None, NOW),
    )
    assert levels.ask_for(ROOM) == [
        LevelRequest("p", 5, (NOW - 30, 0), 10),
        LevelRequest("p", 0, (NOW - 60, 0), 10),
    ]
    assert not levels.has_news


def test_a_survey_begins_where_tasks_may_have_been_committed_since() -> None:
    """I8: at the first due task, or a margin before the last survey; never at the beginning of a
    level that was surveyed."""
    levels = levels_after(
        FoundLevel("p", 0, NOW - 60, NOW),
        FoundLevel("p", 1, NOW - MARGIN_SECONDS / 2, NOW),
        FoundLevel("p", 2, NOW + 60, NOW),
        FoundLevel("q", None, None, NOW),
    )
    recent = (NOW - MARGIN_SECONDS, 0)
    assert levels.known() == [("p", 0, (NOW - 60, 0)), ("p", 1, recent), ("p", 2, recent)]
    levels.learn(levels.begin(), [FoundLevel("p", 0, None, NOW + 9)])
    assert levels.known()[0] == ("p", 0, (NOW + 9 - MARGIN_SECONDS, 0))
    levels.hear("q", 7, 0.0, NOW)
    assert levels.known()[-1] == ("q", 7, recent)


def test_a_task_before_the_floor_lowers_it() -> None:
    """I8: a long transaction, a time in the past, a clock that went back."""
    levels = levels_after(FoundLevel("p", 0, NOW - 1, NOW))
    levels.ask_for(ROOM)
    levels.hear("p", 0, 0.0, NOW - 3600)
    assert levels.has_news
    assert levels.ask_for(ROOM) == [LevelRequest("p", 0, (NOW - 3600, 0), 10)]


def test_a_claim_goes_on_after_the_last_one_and_a_survey_looks_again() -> None:
    """I8: a task that was locked, or committed too late, before those that were claimed."""
    levels = levels_after(FoundLevel("p", 0, NOW - 60, NOW, 7))
    levels.ask_for(ROOM)
    levels.claimed([("p", 0, (NOW - 60, 9)), ("p", 0, (NOW - 60, 8)), ("p", 5, (NOW - 60, 10))])
    assert not levels.has_news
    assert [level.floor for level in levels.ask_for(ROOM)] == [(NOW - 60, 9)]
    assert levels.known() == [("p", 0, (NOW - 60, 7))]
    levels.learn(levels.begin(), [FoundLevel("p", 0, NOW - 60, NOW, 8)])
    assert levels.has_news


def test_what_is_heard_during_a_survey_is_newer_than_what_it_finds() -> None:
    """I8: a hint is not lost when the survey under way did not see its task yet."""
    levels = levels_after(FoundLevel("p", None, None, NOW), FoundLevel("q", None, None, NOW))
    for learn in (levels.learn, levels.learn_all, levels.learn_more):
        survey = levels.begin()
        levels.hear("p", 3, 0.0, NOW)
        learn(survey, [FoundLevel("p", None, None, NOW), FoundLevel("q", None, None, NOW)])
        assert [level.rank for level in levels.ask_for(ROOM)] == [3]
        levels.learn(levels.begin(), [FoundLevel("p", 3, None, NOW)])
        assert levels.next_due_at == FOREVER


def test_a_slow_survey_adds_what_the_fast_ones_cannot_see() -> None:
    """I8: unknown levels, and tasks before the place where the others begin; for the rest the
    others are newer."""
    levels = levels_after(FoundLevel("p", 0, NOW - 1, NOW), FoundLevel("p", 1, NOW - 1, NOW))
    slow = levels.begin()
    later = NOW + 60
    levels.learn(
        levels.begin(), [FoundLevel("p", 0, None, later), FoundLevel("p", 1, later, later)]
    )
    levels.learn_more(
        slow,
        [
            FoundLevel("p", 0, NOW - 3600, NOW),
            FoundLevel("p", 1, later, NOW),
            FoundLevel("q", 9, NOW - 5, NOW),
        ],
    )
    assert [level[:3] for level in levels.ask_for(ROOM)] == [
        ("q", 9, (NOW - 5, 0)),
        ("p", 1, (later, 0)),
        ("p", 0, (NOW - 3600, 0)),
    ]


def test_a_slow_survey_forgets_levels_without_tasks() -> None:
    """Else each priority ever used would cost a probe."""
    levels = levels_after(FoundLevel("p", 0, NOW - 1, NOW), FoundLevel("p", 1, NOW - 1, NOW))
    levels.learn(levels.begin(), [FoundLevel("p", 0, None, NOW), FoundLevel("p", 1, None, NOW)])
    levels.learn_more(levels.begin(), [FoundLevel("p", 1, NOW - 1, NOW)])
    assert [known[:2] for known in levels.known()] == [("p", 1)]


def test_a_paused_pipeline_keeps_its_place() -> None:
    """A survey says nothing about it; its older tasks are claimed after it is resumed."""
    levels = levels_after(FoundLevel("p", 0, NOW - 60, NOW))
    levels.learn(levels.begin(), [])
    assert levels.next_due_at == FOREVER
    levels.learn_all(levels.begin(), [FoundLevel("q", None, None, NOW + 60)])
    assert levels.known() == [("p", 0, (NOW - 60, 0))]


def test_a_clock_that_went_back_makes_every_floor_doubtful() -> None:
    """I8: new tasks may lie before them."""
    levels = levels_after(FoundLevel("p", 0, NOW, NOW))
    levels.is_unsure = False
    levels.learn(levels.begin(), [FoundLevel("p", 0, NOW - 100, NOW - 90)])
    levels.hear("q", 0, 0.0)
    assert levels.is_unsure
    assert ("q", 0, BEGINNING) in levels.known()


def test_a_failed_survey_leaves_the_rest_as_it_was() -> None:
    """The next one looks at everything."""
    levels = levels_after(FoundLevel("p", 0, NOW, NOW))
    levels.is_unsure = False
    levels.abandon(levels.begin())
    levels.hear("p", 0, 60.0)
    assert levels.is_unsure
    assert levels.next_due_at <= time.monotonic()
