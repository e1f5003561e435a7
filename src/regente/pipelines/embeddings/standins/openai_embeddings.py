"""Stand-in for an OpenAI-compatible embeddings API; its base URL ends in `/openai/v1`.

The same text always has the same vector, a seeded bag of words. It honours Idempotency-Key, counts
what it would have charged for, and has faults.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections import Counter, OrderedDict
from enum import StrEnum
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

DIMENSIONS = {"text-embedding-3-large": 3072}
DEFAULT_DIMENSIONS = 1536
REMEMBERED_CALLS = 20_000
MAX_INPUTS = 2048


class FaultKind(StrEnum):
    THROTTLED = "throttled"
    """429 with Retry-After."""
    FAILING = "failing"
    """500."""
    REFUSED = "refused"
    """400 for every call with a text that holds `contains`."""
    WRONG_DIMENSIONS = "wrong_dimensions"
    """One vector has one value too few."""
    NOT_A_NUMBER = "not_a_number"
    ZERO = "zero"
    SHUFFLED = "shuffled"
    """The items come in reverse order, each with its right index, which the API allows."""
    TOO_FEW = "too_few"
    UNAUTHORIZED = "unauthorized"
    """401 whose message repeats the key."""
    LOST = "lost"
    """500 after the work was done and charged."""


class Fault(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: FaultKind
    count: int | None = Field(
        None, ge=1, description="number of calls; without it until it is cleared"
    )
    retry_after: float = Field(1.0, ge=0)
    contains: str = ""


class EmbeddingsQuestion(BaseModel):
    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1, le=16_000)


class OpenAiEmbeddings:
    prefix = "/openai/v1/embeddings"

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.calls: dict[str, int] = {}
        self.charged: Counter[str] = Counter()
        """How often each text was charged."""
        self.honours_keys = True
        """Whether a repeated call with the same idempotency key is free."""
        self.faults: list[Fault] = []
        self._remembered: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.reset()

    def reset(self) -> None:
        self.calls = {"calls": 0, "texts": 0, "repeated": 0, "faulty": 0}
        self.charged.clear()
        self.faults.clear()
        self._remembered.clear()

    def break_with(self, kind: FaultKind, **scope: Any) -> None:
        self.faults.append(Fault(kind=kind, **scope))

    def vector(self, text: str, dimensions: int) -> list[float]:
        """Return the vector of the text: each word adds a few signed values."""
        sums = [0.0] * dimensions
        for word in text.lower().split() or [text]:
            digest = hashlib.blake2b(
                f"{self._seed}/{word}".encode("utf-8", "replace"), digest_size=32
            ).digest()
            for place, value in struct.iter_unpack("<Hh", digest):
                sums[place % dimensions] += value / 32768
        norm = math.sqrt(math.fsum(value * value for value in sums)) or 1.0
        return list(
            struct.unpack(
                f"<{dimensions}f", struct.pack(f"<{dimensions}f", *(value / norm for value in sums))
            )
        )

    def router(self) -> APIRouter:
        router = APIRouter(tags=["stand-in: embeddings"])
        router.add_api_route("", self.embed, methods=["POST"])
        router.add_api_route("/admin/faults", self.add_fault, methods=["POST"], status_code=204)
        router.add_api_route(
            "/admin/faults", self.clear_faults, methods=["DELETE"], status_code=204
        )
        return router

    async def add_fault(self, fault: Fault) -> Response:
        self.faults.append(fault)
        return Response(status_code=204)

    async def clear_faults(self) -> Response:
        self.faults.clear()
        return Response(status_code=204)

    async def embed(
        self,
        question: EmbeddingsQuestion,
        authorization: Annotated[str, Header()] = "",
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        self.calls["calls"] += 1
        texts = [question.input] if isinstance(question.input, str) else question.input
        fault = self._take_fault(texts)
        if fault is not None and (refusal := _refusal(fault, authorization)) is not None:
            return refusal
        if not texts or len(texts) > MAX_INPUTS or not all(texts):
            return _error(400, f"'$.input' holds 1 to {MAX_INPUTS} texts, none of them empty")
        answer = self._answer(question, texts, idempotency_key)
        if fault is not None and fault.kind is FaultKind.LOST:
            return _error(500, "the answer got lost")
        return JSONResponse(answer if fault is None else _spoiled(answer, fault.kind))

    def _take_fault(self, texts: list[str]) -> Fault | None:
        """Return the first fault that matches, and remove it when its `count` is used up."""
        for fault in self.faults:
            if any(fault.contains in text for text in texts):
                self.calls["faulty"] += 1
                if fault.count is not None:
                    fault.count -= 1
                    if fault.count == 0:
                        self.faults.remove(fault)
                return fault
        return None

    def _answer(
        self, question: EmbeddingsQuestion, texts: list[str], key: str | None
    ) -> dict[str, Any]:
        key = key if self.honours_keys else None
        if key is not None and key in self._remembered:
            self.calls["repeated"] += 1
            return self._remembered[key]
        self.calls["texts"] += len(texts)
        self.charged.update(texts)
        dimensions = question.dimensions or DIMENSIONS.get(question.model, DEFAULT_DIMENSIONS)
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _written(self.vector(text, dimensions), question),
            }
            for index, text in enumerate(texts)
        ]
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "data": data, "model": question.model, "usage": usage}
        if key is not None:
            self._remembered[key] = answer
            if len(self._remembered) > REMEMBERED_CALLS:
                self._remembered.popitem(last=False)
        return answer


def _written(vector: list[float], question: EmbeddingsQuestion) -> list[float] | str:
    return vector if question.encoding_format == "float" else _base64(vector)


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _refusal(fault: Fault, authorization: str) -> Response | None:
    if fault.kind is FaultKind.THROTTLED:
        return _error(429, "Rate limit reached", {"retry-after": f"{fault.retry_after:g}"})
    if fault.kind is FaultKind.FAILING:
        return _error(500, "The server had an error while processing your request")
    if fault.kind is FaultKind.REFUSED:
        return _error(400, "This model's maximum context length is 8192 tokens")
    if fault.kind is FaultKind.UNAUTHORIZED:
        return _error(401, f"Incorrect API key provided: {authorization.removeprefix('Bearer ')}")
    return None


def _spoiled(answer: dict[str, Any], kind: FaultKind) -> dict[str, Any]:
    """Return the response with the fault applied."""
    data = [dict(item) for item in answer["data"]]
    first = (
        base64.b64decode(data[0]["embedding"]) if isinstance(data[0]["embedding"], str) else None
    )
    values = (
        list(struct.unpack(f"<{len(first) // 4}f", first))
        if first is not None
        else list(data[0]["embedding"])
    )
    if kind is FaultKind.WRONG_DIMENSIONS:
        values = values[:-1]
    elif kind is FaultKind.ZERO:
        values = [0.0] * len(values)
    elif kind is FaultKind.NOT_A_NUMBER:
        first, values = b"", [math.nan, *values[1:]]  # JSON numbers cannot express NaN
    data[0]["embedding"] = values if first is None else _base64(values)
    if kind is FaultKind.SHUFFLED:
        data.reverse()
    elif kind is FaultKind.TOO_FEW:
        data.pop()
    return {**answer, "data": data}


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "stand_in"}}, status, headers)
