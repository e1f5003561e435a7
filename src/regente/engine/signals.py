"""How a task waits for a signal, which a person or a program sends before or during the wait.

While it waits it has no slot: it is queued, and due when the signal comes or the time is over.
"""

from __future__ import annotations

import json
import math
from typing import Any

from regente.engine.codec import decode_result
from regente.engine.crashpoints import crash_point
from regente.engine.errors import InvalidArgs, InvalidInput, LeaseLost, SignalTimeout, Waiting
from regente.engine.replay import Replay
from regente.engine.task_store import Claim, Recorded, TaskStore

MAX_SIGNAL_CHARACTERS = 100
MAX_TIMEOUT_SECONDS = 100 * 366 * 86_400.0
NOT_GIVEN: Any = object()

_TIMED_OUT = '{"timed_out":true}'


def check_wait(name: str, timeout_seconds: float | None) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_SIGNAL_CHARACTERS:
        raise InvalidInput(f"a signal's name has 1 to {MAX_SIGNAL_CHARACTERS} characters")
    if timeout_seconds is not None and not 0 <= timeout_seconds <= MAX_TIMEOUT_SECONDS:
        raise InvalidInput(
            f"a task waits for 0 to {MAX_TIMEOUT_SECONDS:,.0f} seconds, not {timeout_seconds}"
        )


class SignalWait:
    """One wait of one attempt, at the step `key`, for a payload of the type `hint`."""

    __slots__ = ("_call", "_claim", "_hint", "_key", "_name", "_replay", "_store")

    def __init__(
        self, claim: Claim, store: TaskStore, replay: Replay, key: str, name: str, hint: Any
    ) -> None:
        self._claim = claim
        self._store = store
        self._replay = replay
        self._key = key
        self._name = name
        self._hint = hint
        self._call = f"wait_for({name!r})"

    def replayed(self, recorded: Recorded, default: Any) -> Any:
        """The payload that an earlier attempt received."""
        if recorded.call != self._call:
            raise self._replay.changed(self._key, recorded, self._call)
        if recorded.output == _TIMED_OUT:
            return self._missed(default)
        payload = json.dumps(json.loads(recorded.output or "{}").get("payload"))
        try:
            return decode_result(payload, self._hint, what=f"the signal {self._name}")
        except InvalidArgs as error:
            raise self._replay.changed(self._key, recorded, str(error)) from error

    async def receive(self, timeout_seconds: float | None, default: Any) -> Any:
        """The payload. A payload of another type is refused, and the wait goes on."""
        while True:
            rows = await self._store.look_for_signal(
                self._claim, self._key, self._name, timeout_seconds
            )
            if not rows:
                raise LeaseLost(f"task {self._claim.id} was taken over")
            [(signal_id, text, left_seconds)] = rows
            if signal_id is None:
                if left_seconds is None or left_seconds > 0:
                    seconds = math.inf if left_seconds is None else left_seconds
                    raise Waiting(self._key, seconds, {"signal": self._name})
                if await self._record(None, _TIMED_OUT):
                    return self._missed(default)
                continue
            try:
                payload = decode_result(text, self._hint, what=f"the signal {self._name}")
            except InvalidArgs as error:
                await self._refuse(signal_id, str(error))
                continue
            if await self._record(signal_id, f'{{"signal":{signal_id},"payload":{text}}}'):
                return payload

    def _missed(self, default: Any) -> Any:
        if default is NOT_GIVEN:
            raise SignalTimeout(f"the signal {self._name} did not come in time")
        return default

    async def _record(self, signal_id: int | None, output: str) -> bool:
        rows = await self._store.receive_signal(
            self._claim,
            step=self._key,
            signal=self._name,
            signal_id=signal_id,
            output=output,
            call=self._call,
        )
        if not rows:
            raise LeaseLost(f"task {self._claim.id} was taken over")
        crash_point("signal.received")
        return bool(rows[0][0])

    async def _refuse(self, signal_id: int, reason: str) -> None:
        if not await self._store.refuse_signal(self._claim, signal_id, reason):
            raise LeaseLost(f"task {self._claim.id} was taken over")
