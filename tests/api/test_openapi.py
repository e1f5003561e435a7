"""The OpenAPI document: unchanged, complete, and rendered without external resources."""

from __future__ import annotations

import json
import re
from typing import Any

from scripts.openapi import PAGE, document

from regente import Regente
from regente.api.app import create_app
from tests.api.conftest import Served, body_of
from tests.api.test_every_route import operations

NAME_A_THING = frozenset(
    {
        "/api/lanes/open",
        "/api/lanes/park",
        "/api/lanes/set",
        "/api/lanes/show",
        "/api/schedules/next",
        "/api/schedules/pause",
        "/api/schedules/remove",
        "/api/schedules/resume",
        "/api/schedules/runs",
        "/api/schedules/set",
        "/api/scrape/retry-failed",
        "/api/session/oidc",
        "/api/session/oidc/callback",
    }
)
"""Paths without a parameter: the thing is in the query or the body, or a provider that may not be
configured."""


def test_the_document_equals_the_committed_one() -> None:
    """O18: a change that callers see is made knowingly."""
    assert json.loads(PAGE.read_text("utf-8")) == json.loads(document()), (
        "run `python scripts/openapi.py --write`"
    )


def test_every_operation_has_a_tag_a_summary_its_problems_and_a_name_of_its_own() -> None:
    """O18: the document is complete for its readers."""
    found = create_app(Regente("postgresql://nowhere")).openapi()
    tags = {tag["name"] for tag in found["tags"]}
    names = [operation["operationId"] for _, _, operation in operations(found)]
    assert len(names) == len(set(names))
    for method, path, operation in operations(found):
        assert set(operation["tags"]) <= tags, (method, path)
        assert operation["summary"], (method, path)
        assert {"401", "503"} <= set(operation["responses"]), (method, path)
        names_a_thing = "{" in path or path in NAME_A_THING
        assert ("404" in operation["responses"]) == names_a_thing, (method, path)
        if "requestBody" in operation:
            assert {"400", "413", "422"} <= set(operation["responses"]), (method, path)


def test_no_response_schema_has_a_secret() -> None:
    """O18: except the one response that shows a new key."""
    found = create_app(Regente("postgresql://nowhere")).openapi()
    schemas = found["components"]["schemas"]
    answered = set(
        re.findall(
            r"#/components/schemas/(\w+)",
            json.dumps([one["responses"] for _, _, one in operations(found)]),
        )
    )
    while True:
        inner = set(
            re.findall(
                r"#/components/schemas/(\w+)", json.dumps([schemas[name] for name in answered])
            )
        )
        if inner <= answered:
            break
        answered |= inner
    holding = {
        name
        for name in answered
        if {"api_key", "password"} & set(schemas[name].get("properties", {}))
    }
    assert holding == {"CreatedKey"}


async def test_the_documentation_works_offline(api: Served) -> None:
    """O18: /docs under a policy without inline scripts."""
    page = await api.viewer.get("/docs")
    assert page.status_code == 200
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert parts
    assert not re.search(r"<script>|<style|\son\w+=|style=", page.text)
    for part in parts:
        assert "//" not in part
        assert (await api.viewer.get(f"/{part}")).status_code == 200, part
    script = (await api.anonymous.get("/pages/docs.js")).text
    assert "innerHTML" not in script
    served: dict[str, Any] = body_of(await api.viewer.get("/openapi.json"))
    assert served["openapi"].startswith("3.1")
