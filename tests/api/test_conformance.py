"""Any request, valid or not by the document: no 5xx, and responses that match the document."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.checks import load_all_checks
from schemathesis.checks import not_a_server_error as no_server_error
from schemathesis.core.result import Err, Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.conftest import Served, with_config

DOCUMENT = Path(__file__).with_name("openapi.json")
EXAMPLES_PER_ROUTE = 6
CHECKS = [
    no_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@with_config(requests_per_second=100_000.0, request_burst=100_000)
async def test_every_route_answers_as_its_document_says(api: Served) -> None:
    """schemathesis over the whole document with a fixed seed and a real database."""
    load_all_checks()
    key = api.admin.headers["x-api-key"]
    asked = await asyncio.to_thread(_ask_all, api.url, key)
    assert asked > 60, "the document names more routes than were asked"


def _ask_all(url: str, key: str) -> int:
    schema = schemathesis.openapi.from_path(DOCUMENT).exclude(path="/api/stream")
    found = list(schema.get_all_operations())
    assert not any(isinstance(one, Err) for one in found), "the document is not valid"
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    for operation in operations:

        @settings(
            max_examples=EXAMPLES_PER_ROUTE,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Case[Any]) -> None:
            case.call_and_validate(base_url=url, headers={"x-api-key": key}, checks=CHECKS)

        ask()
    return len(operations)
