"""Steps with `on_unknown="hold"`: the intent is committed before the call, and a call of unknown
outcome is not repeated but put before a person (`Regente.resolve`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from regente.engine.calls import StepCall
from regente.engine.codec import decode
from regente.engine.crashpoints import crash_point
from regente.engine.errors import Fatal, Held, LeaseLost, RegenteError, Transient, UnknownOutcome
from regente.engine.replay import Replay, stored
from regente.engine.task_store import Claim, Recorded, TaskStore

OnUnknown = Literal["retry", "hold"]

_MAY_HAVE_ARRIVED = (
    UnknownOutcome,
    TimeoutError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
)
# Of the libraries for HTTP, which the engine does not import.
_LOST_ANSWERS = {
    "ReadTimeout",
    "ReadError",
    "RemoteProtocolError",
    "IncompleteRead",
    "ServerDisconnectedError",
}
_NOT_SENT = {"ConnectTimeout", "ConnectError", "PoolTimeout"}
_CODES = {"STEP_TIMEOUT", "ISOLATED_CRASH", "ISOLATED_TIMEOUT", "ISOLATED_MEMORY"}


@dataclass(frozen=True, slots=True)
class Intent:
    name: str
    item: int
    attempt: int
    called_at: datetime
    call: str | None
    decision: str | None
    result: str | None


class Intents:
    """The intents of one attempt at a task."""

    __slots__ = ("_check_lease", "_claim", "_found", "_replay", "_store", "unknown")

    def __init__(
        self, claim: Claim, store: TaskStore, replay: Replay, check_lease: Callable[[], None]
    ) -> None:
        self._claim = claim
        self._store = store
        self._replay = replay
        self._check_lease = check_lease
        self._found: dict[tuple[str, int], Intent] | None = None
        self.unknown: Held | None = None  # the call that a person has to decide on

    async def once(
        self,
        names: Sequence[str],
        item: int,
        call: StepCall,
        work: Callable[[], Awaitable[Any]],
    ) -> tuple[str, Any]:
        """The text and value of a result whose call is not repeated while its outcome is
        unknown. `names` are the step's, the present one first."""
        intent = await self._find(names, item)
        if intent is not None:
            if intent.call is None or not call.is_recorded_as(intent.call):
                raise self._replay.changed(names[0], Recorded(None, intent.call), call.text)
            if intent.decision is None:
                raise await self._ask(intent)
            if intent.decision == "result":
                return await self._given(intent, call.hint)
        intent = await self._begin(names[0], item, call.text)
        crash_point("intent.committed")
        self._check_lease()  # the commit may have taken long, or the process may have been frozen
        try:
            value = await work()
        except Exception as error:
            if may_have_arrived(error):
                raise await self._ask(intent) from error
            await self._forget(intent.name, item)
            raise
        return stored(value, call.hint, intent.name)

    async def _given(self, intent: Intent, hint: Any) -> tuple[str, Any]:
        """The result that a person gave, if it is one that the step may have."""
        try:
            return stored(decode(intent.result), hint, intent.name)
        except Fatal as error:
            raise await self._ask(intent, f" ({error.message})") from error

    async def _find(self, names: Sequence[str], item: int) -> Intent | None:
        """The intent that an earlier attempt left, under the step's name or an earlier one."""
        if self._found is None:
            rows = await self._store.recall_intents(self._claim) if self._claim.attempt > 1 else []
            self._found = {(row[0], row[1]): Intent(*row) for row in rows}
        return next((i for name in names if (i := self._found.get((name, item)))), None)

    async def _begin(self, name: str, item: int, call: str) -> Intent:
        """Commit that this is about to be called."""
        writing = asyncio.ensure_future(self._store.record_intent(self._claim, name, item, call))
        try:
            called_at = await asyncio.shield(writing)
        except asyncio.CancelledError:  # before the call: there is nothing to decide
            with contextlib.suppress(RegenteError, asyncio.CancelledError):
                await writing
                await self._forget(name, item)
            raise
        if called_at is None:
            raise LeaseLost(f"task {self._claim.id} was taken over")
        return Intent(name, item, self._claim.attempt, called_at, call, None, None)

    async def _forget(self, name: str, item: int) -> None:
        await self._store.forget_intent(self._claim, name, item)

    async def _ask(self, intent: Intent, note: str = "") -> Held:
        """Return the exception that ends the attempt and holds the task for a person's decision."""
        if not await self._store.ask_about_intents(self._claim, intent.name, intent.item):
            raise LeaseLost(f"task {self._claim.id} was taken over")
        message = described(intent.name, intent.item, intent.called_at, intent.attempt)
        details: dict[str, Any] = {
            "step": intent.name,
            "item": None if intent.item < 0 else intent.item,
            "called_in_attempt": intent.attempt,
            "called_at": intent.called_at.isoformat(),
        }
        error = Transient(message + note, code=UnknownOutcome.code, details=details)
        self.unknown = Held(error.message, error)
        return self.unknown


def described(step: str, item: int | None, called_at: datetime, attempt: int) -> str:
    which = step if item is None or item < 0 else f"item {item} of {step}"
    return (
        f"{which} may have been called at {called_at:%Y-%m-%d %H:%M:%S %Z} (attempt {attempt}), "
        "and its result is not known: retry it, or give its result"
    )


def may_have_arrived(error: BaseException) -> bool:
    """True for an error after which it is unknown whether the call took effect."""
    if isinstance(error, BaseExceptionGroup):
        return any(may_have_arrived(one) for one in error.exceptions)
    if isinstance(error, _MAY_HAVE_ARRIVED) or getattr(error, "code", None) in _CODES:
        return True
    if isinstance(error, RegenteError):  # the function says what it is
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _NOT_SENT:
        return False
    cause = error.__cause__
    return bool(names & _LOST_ANSWERS) or (cause is not None and may_have_arrived(cause))
