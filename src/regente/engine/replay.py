"""What earlier attempts at a task recorded, and whether this attempt asks for the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from regente.engine.calls import StepCall
from regente.engine.codec import decode_result, encode, is_storable
from regente.engine.errors import Fatal, InvalidArgs, InvalidInput, ReplayMismatch
from regente.engine.task_store import Recorded

MAX_NAME_CHARACTERS = 200
MAX_SHOWN_CHARACTERS = 200
EFFECTS = "async with transaction"  # the recorded call of a transaction without a result
WHOLE = -1  # the item of a step that is no loop
_KEY_PART = re.compile(r"#\d+$|\[\d+\]\.")

# Steps inside an item of `each` belong to that item: a replay leaves finished items out, and the
# others must not find the steps of those.
_scope: ContextVar[str] = ContextVar("regente_scope", default="")

Memory = Mapping[str, Mapping[int, Recorded]]
"""The recorded results by the key of their step and the item of its loop."""


class Replay:
    """One attempt's steps: their keys, and the results that earlier attempts recorded for them."""

    __slots__ = ("_counts", "memory", "mismatch")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.memory: Memory | None = None  # read when the first step asks
        self.mismatch: ReplayMismatch | None = None

    def key(self, name: str) -> str:
        """The step's key. The n-th call of a name is a step of its own, so a loop may call
        `step("PAGE", …)` repeatedly."""
        check_name(name)
        if _KEY_PART.search(name):
            raise InvalidInput(
                f"{name!r:.100} cannot name a step: #2 and [3]. mark repetitions and items in keys"
            )
        scoped = scoped_key(name)
        count = self._counts[scoped] = self._counts.get(scoped, 0) + 1
        return scoped if count == 1 else f"{scoped}#{count}"

    def result(self, key: str, recorded: Recorded, call: StepCall) -> Any:
        """The recorded result, if it was recorded for this call."""
        if recorded.call is not None and not call.is_recorded_as(recorded.call):
            raise self.changed(key, recorded, call.text)
        try:
            return decode_result(recorded.output, call.hint, what="the result")
        except InvalidArgs as error:
            raise self.changed(key, recorded, str(error)) from error

    def transacted(self, key: str, recorded: Recorded, call: StepCall) -> Any:
        """As `result`, also for code that was an `async with` when the step was recorded."""
        without_result = recorded.output is None and recorded.call in (None, EFFECTS)
        if not without_result:
            return self.result(key, recorded, call)
        if call.hint is None or call.hint is type(None):
            return None
        present = f"the result of {call.text}; if it has none, declare that"
        raise self.changed(key, recorded, present)

    def changed(self, key: str, recorded: Recorded, present: str) -> ReplayMismatch:
        was = recorded.call or "a call that older code recorded"
        self.mismatch = ReplayMismatch(
            f"{key} was recorded for {was[:MAX_SHOWN_CHARACTERS]}; "
            f"this attempt asks for {present[:MAX_SHOWN_CHARACTERS]}",
            {"step": key, "recorded": recorded.call, "present": present},
        )
        return self.mismatch


def recorded_for(
    memory: Memory, key: str, name: str, aliases: Sequence[str]
) -> Mapping[int, Recorded]:
    """What is recorded for this step, under its name or an earlier one."""
    found: Mapping[int, Recorded] = memory.get(key, {})
    for earlier in earlier_keys(key, name, aliases):
        found = {**memory.get(earlier, {}), **found}
    return found


def earlier_keys(key: str, name: str, aliases: Sequence[str]) -> list[str]:
    """The step's keys under its earlier names, in the same item of `each`."""
    scope = _scope.get()
    return [scope + alias + key.removeprefix(scope + name) for alias in aliases]


def scoped_key(name: str) -> str:
    """The key of the first step of that name, in the item of `each` that runs."""
    return _scope.get() + name


def each_scoped(key: str, indexes: Sequence[int]) -> Iterator[int]:
    """The indexes, each with its scope in the context of the code that takes it."""
    for index in indexes:
        _scope.set(f"{key}[{index}].")
        yield index


def check_name(name: str) -> None:
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MAX_NAME_CHARACTERS
        or not is_storable(name)
    ):
        raise InvalidInput(
            f"{name!r:.100} cannot name a step: 1 to {MAX_NAME_CHARACTERS} characters, no NUL"
        )


def stored(value: Any, hint: Any, key: str) -> tuple[str, Any]:
    """A result as the text to record, and as every attempt gets it: read back from that text."""
    what = f"the result of {key}"
    try:
        text = encode(value, what=what)
        return text, decode_result(text, hint, what=what)
    except InvalidInput as error:
        raise Fatal(str(error), code="INVALID_OUTPUT") from error
