"""A secret that is sent through any route that writes never comes out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from regente import Regente
from regente.api.app import create_app
from tests.api.conftest import Served
from tests.api.test_every_route import concrete, operations
from tests.support.eventually import eventually_async

CANARY = "canary-7f3a9c"
NAMES = ("api_key", "password", "token", "secret", "authorization", "credentials")
SECRETS = dict.fromkeys(NAMES, CANARY) | {
    "x-api-key": CANARY,
    "aws_secret_access_key": [CANARY],
    "accessToken": {"value": CANARY},
    "clientSecret": [{"of": CANARY}],
    "headers": [["Authorization", CANARY], {"name": "Set-Cookie", "value": CANARY}],
    "note": f"sk-{CANARY}-0123456789abcdef and postgresql://u:{CANARY}@h/d",
}
BY_FORMAT = {"date": "2025-01-15", "date-time": "2030-01-15T00:00:00Z"}


class Bodies:
    """Request bodies for an operation, made from its schema."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def of(self, operation: dict[str, Any]) -> list[bytes]:
        content = operation.get("requestBody", {}).get("content", {})
        schema = next(iter(content.values()))["schema"] if content else {}
        right = self._value(schema, "body")
        fields = right if isinstance(right, dict) else {}
        wrong = {name: {"password": CANARY} for name in fields}
        return [
            json.dumps(right).encode(),
            json.dumps(fields | SECRETS | {"details": SECRETS, "headers": SECRETS}).encode(),
            json.dumps(wrong).encode(),
            json.dumps([SECRETS]).encode(),
            json.dumps({"password": CANARY}).encode()[:-1],
        ]

    def _value(self, schema: dict[str, Any], name: str, depth: int = 0) -> Any:
        if "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if choice.get("type") != "null":
                return self._value(choice, name, depth)
        match schema.get("type"):
            case "object" if depth < 6:
                properties = schema.get("properties", {})
                made = {key: self._value(one, key, depth + 1) for key, one in properties.items()}
                return made or SECRETS
            case "array":
                return [self._value(schema.get("items", {}), name, depth + 1)]
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return False
            case "string" if "enum" in schema or "const" in schema:
                return schema["enum"][0] if "enum" in schema else schema["const"]
            case "string" if name not in SECRETS:
                return BY_FORMAT.get(
                    schema.get("format", ""),
                    "https://peer.example.com" if name == "url" else "some-text",
                )
            case _:
                return CANARY


@contextlib.asynccontextmanager
async def listening(client: httpx2.AsyncClient, told: list[str]) -> AsyncIterator[None]:
    """Collects the stream's output meanwhile."""

    async def listen() -> None:
        async with client.stream("GET", "/api/stream", timeout=None) as source:
            async for text in source.aiter_text():
                told.append(text)

    task = asyncio.create_task(listen())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _told(streamed: list[str], text: str) -> bool:
    return text in "".join(streamed)


async def test_a_secret_put_in_through_any_write_route_comes_out_nowhere(
    api: Served, app: Regente, caplog: pytest.LogCaptureFixture
) -> None:
    """O18, O20: in no response, log line, event or stream, and without a 5xx."""
    document = create_app(app).openapi()
    bodies, answers, streamed, seen = Bodies(document), [], list[str](), 0
    with caplog.at_level(logging.DEBUG):
        async with listening(api.admin, streamed):
            for method, path, operation in operations(document):
                if method == "GET" or path == "/api/session":
                    continue
                seen += 1
                for body in bodies.of(operation):
                    headers = {
                        "content-type": "application/json",
                        "authorization": f"Bearer {CANARY}",
                        "cookie": f"a={CANARY}",
                    }
                    answer = await api.admin.request(
                        method, concrete(path), content=body, headers=headers
                    )
                    assert answer.status_code < 500, (method, path, body, answer.text)
                    answers.append((method, path, body, answer))
                wrong_key = await api.anonymous.request(
                    method, concrete(path), headers={"x-api-key": CANARY}, content=b"{}"
                )
                answers.append((method, path, b"", wrong_key))
            reading = (
                "/api/events",
                "/api/events/export",
                "/api/workers",
                "/api/proxies",
                "/api/writers",
                "/api/tasks",
            )
            answers += [("GET", path, b"", await api.admin.get(path)) for path in reading]
            last = (await app.feed())[-1]
            await eventually_async(lambda: _told(streamed, f"id: {last.position}"))
    assert seen > 40
    assert sum(answer.status_code < 300 for *_, answer in answers) > 15
    leaks = [
        (method, path, body)
        for method, path, body, answer in answers
        if CANARY in answer.text + str(answer.headers)
    ]
    assert not leaks
    assert not [one for one in await app.feed() if CANARY in json.dumps(one.details)]
    assert CANARY not in "".join(streamed)
    ours = [record for record in caplog.records if record.name.startswith(("regente", "uvicorn"))]
    assert not [record.getMessage() for record in ours if CANARY in str(vars(record))]
