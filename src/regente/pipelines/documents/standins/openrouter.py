"""Stand-in for a chat API in the style of OpenAI (OpenRouter): strict JSON, derived from the text.

The same text gets the same answer. A question with a known idempotency key gets the stored answer
and is not charged again. Faults match questions by a word in their text.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from enum import StrEnum
from typing import Annotated, Any, assert_never

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, Field

ROUTE = "/api/v1/chat/completions"


class ChatFault(StrEnum):
    THROTTLE = "throttle"
    """429, with Retry-After."""
    SERVER_ERROR = "server_error"
    """502 whose message repeats the caller's key."""
    BROKEN = "broken"
    """200 with a body that is not JSON."""
    HANG = "hang"
    """No response for `seconds`."""
    NOT_JSON = "not_json"
    """A valid response whose content is prose."""
    UNKNOWN_CLASS = "unknown_class"
    REFUSAL = "refusal"
    CUT = "cut"
    """The JSON is cut off because the tokens ran out."""
    EMPTY = "empty"
    """A response without choices."""
    ERROR_IN_200 = "error_in_200"
    """OpenRouter's response when a provider fails after it began to answer."""


class Fault(BaseModel):
    kind: ChatFault
    contains: str = Field("", description="Matches questions with this in their text; empty: all.")
    times: int | None = Field(None, ge=1, description="How often; without it until it is cleared.")
    seconds: float = Field(
        1.0, ge=0, le=86_400, description="Retry-After for `throttle`, duration for `hang`."
    )
    lost: bool = Field(
        False,
        description="The question is answered and charged, and the answer is lost.",
    )


class Message(BaseModel):
    role: str
    content: str


class Question(BaseModel):
    model: str
    messages: list[Message]
    response_format: dict[str, Any]

    @property
    def text(self) -> str:
        return "\n".join(one.content for one in self.messages if one.role == "user")

    @property
    def classes(self) -> list[str]:
        found: list[str] = self.response_format["json_schema"]["schema"]["properties"]["category"][
            "enum"
        ]
        return found


class OpenRouter:
    prefix = "/openrouter"

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.calls: dict[str, int] = {}
        self.paid: Counter[str] = Counter()
        """How often each idempotency key was charged; more than once is a double payment."""
        self.faults: list[Fault] = []
        self._answers: dict[str, dict[str, Any]] = {}
        self.reset()

    def reset(self) -> None:
        self.calls = {ROUTE: 0, "answered": 0, "replayed": 0, "throttled": 0, "failed": 0}
        self.paid.clear()
        self.faults.clear()
        self._answers.clear()

    def break_with(self, kind: ChatFault, **scope: Any) -> None:
        self.faults.append(Fault(kind=kind, **scope))

    def router(self) -> APIRouter:
        router = APIRouter()
        router.add_api_route(ROUTE, self.complete, methods=["POST"], response_model=None)
        router.add_api_route("/admin/faults", self.add_fault, methods=["POST"], status_code=201)
        router.add_api_route(
            "/admin/faults", self.clear_faults, methods=["DELETE"], status_code=204
        )
        return router

    async def add_fault(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    async def clear_faults(self) -> None:
        self.faults.clear()

    async def complete(
        self,
        question: Question,
        idempotency_key: Annotated[str | None, Header()] = None,
        authorization: Annotated[str, Header()] = "nothing",
    ) -> Response | dict[str, Any]:
        self.calls[ROUTE] += 1
        known = self._answers.get(idempotency_key or "")
        if known is not None:
            self.calls["replayed"] += 1
            return known
        fault = self._take_fault(question.text)
        if (
            fault is not None
            and not fault.lost
            and (answer := await self._without_answer(fault, authorization)) is not None
        ):
            return answer
        made = self._answer(question, fault)
        self.calls["answered"] += 1
        if idempotency_key:
            self.paid[idempotency_key] += 1
            self._answers[idempotency_key] = made
        lost = (
            await self._without_answer(fault, authorization)
            if fault is not None and fault.lost
            else None
        )
        return lost or made

    def _take_fault(self, text: str) -> Fault | None:
        fault = next((one for one in self.faults if one.contains in text), None)
        if fault is not None and fault.times is not None:
            fault.times -= 1
            if fault.times == 0:
                self.faults.remove(fault)
        return fault

    async def _without_answer(self, fault: Fault, authorization: str) -> Response | None:
        match fault.kind:
            case ChatFault.THROTTLE:
                self.calls["throttled"] += 1
                return _problem(429, "Rate limit exceeded", {"retry-after": f"{fault.seconds:g}"})
            case ChatFault.SERVER_ERROR:
                self.calls["failed"] += 1
                return _problem(502, f"the provider is down; you sent {authorization}")
            case ChatFault.BROKEN:
                self.calls["failed"] += 1
                return PlainTextResponse("<html>Bad gateway</html>")
            case ChatFault.ERROR_IN_200:
                self.calls["failed"] += 1
                return _problem(200, "the provider failed after it had begun", code=502)
            case ChatFault.HANG:
                await asyncio.sleep(fault.seconds)
                return None
            case (
                ChatFault.NOT_JSON
                | ChatFault.UNKNOWN_CLASS
                | ChatFault.REFUSAL
                | ChatFault.CUT
                | ChatFault.EMPTY
            ):
                return None
            case _:
                assert_never(fault.kind)

    def _answer(self, question: Question, fault: Fault | None) -> dict[str, Any]:
        made = json.dumps(self._verdict(question), ensure_ascii=False)
        number = self._number(question.text)
        answer = {"id": f"gen-{number:016x}", "model": question.model, "choices": [_choice(made)]}
        kind = None if fault is None else fault.kind
        if kind is ChatFault.NOT_JSON:
            answer["choices"] = [_choice("It looks like a contract to me.")]
        elif kind is ChatFault.UNKNOWN_CLASS:
            answer["choices"] = [
                _choice(
                    json.dumps({"category": "poem", "confidence": 0.9, "rationale": "it rhymes"})
                )
            ]
        elif kind is ChatFault.REFUSAL:
            answer["choices"] = [_choice(None, refusal="I cannot help with that.")]
        elif kind is ChatFault.CUT:
            answer["choices"] = [_choice(made[: len(made) // 2], reason="length")]
        elif kind is ChatFault.EMPTY:
            answer["choices"] = []
        return answer

    def _verdict(self, question: Question) -> dict[str, Any]:
        """Answer with the class that the text names first, else with one chosen by the text's
        hash."""
        text, number = question.text.casefold(), self._number(question.text)
        named = sorted(
            (place, name) for name in question.classes if (place := text.find(name.casefold())) >= 0
        )
        category = named[0][1] if named else question.classes[number % len(question.classes)]
        rationale = f"the text names {category}" if named else "nothing in the text names a class"
        return {"category": category, "confidence": 0.5 + number % 50 / 100, "rationale": rationale}

    def _number(self, text: str) -> int:
        return int.from_bytes(
            hashlib.blake2b(f"{self._seed}/{text}".encode(), digest_size=7).digest(), "big"
        )


def _choice(
    content: str | None, *, refusal: str | None = None, reason: str = "stop"
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {"index": 0, "finish_reason": reason, "message": message}


def _problem(
    status: int, message: str, headers: dict[str, str] | None = None, *, code: int | None = None
) -> JSONResponse:
    return JSONResponse({"error": {"code": code or status, "message": message}}, status, headers)
