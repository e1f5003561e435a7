"""The OpenAPI document: tags that say what they are, the roles, and the same problems for every
route."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from regente.api.access.middleware import KEY_HEADER, SAFE_METHODS
from regente.api.access.roles import role_of
from regente.api.access.sessions import COOKIE
from regente.api.problems import MEDIA_TYPE, Problem
from regente.api.resource import operation_id

TAGS = {
    "batches": "Tasks that belong together: rounds, lots of quotes, executions.",
    "tasks": "The durable units of work, of any pipeline.",
    "failures": "Dead letters: what failed for good, until somebody retries or discards it.",
    "runners": "The processes that run tasks.",
    "pipelines": "The kinds of tasks that are known.",
    "settings": "What may be changed while everything runs.",
    "events": "The audit log and its exports.",
    "stream": "Events as they happen.",
    "metrics": "Figures for Prometheus.",
    "stats": "The overview's figures.",
    "actions": "Bulk actions and how far they are.",
    "session": "Signing in and out of the console.",
    "keys": "Who may come in.",
    "health": "Is it there?",
}
_READING_ORDER = (
    "missions",
    "batches",
    "tasks",
    "failures",
    "workers",
    "proxies",
    "writers",
    "runners",
    "pipelines",
    "settings",
    "orchestrator",
    "events",
    "stream",
    "metrics",
    "reports",
    "stats",
    "actions",
    "session",
    "keys",
    "system",
    "scrape",
)
"""Tags that are read in another order than that of the list of built-ins."""
DESCRIPTION = (
    f"Send an API key in the header {KEY_HEADER}, or sign in and send the session's "
    "cookie; with the cookie, whatever changes "
    "something also needs the header x-csrf-token. Roles: viewer looks, operator acts, "
    "admin changes the fleet, the settings "
    "and the keys. Errors are problem details (RFC 9457) with a stable code. Lists come in "
    "pages: give `next` as `cursor`."
)
_PROBLEMS = {
    400: ("Malformed", "The request cannot be read."),
    401: ("Unauthorized", "No valid key or session."),
    403: ("Forbidden", "The role, or the CSRF header, is missing."),
    404: ("NotFound", "There is no such thing."),
    409: ("Conflict", "Its state does not allow that."),
    413: ("TooLarge", "The body is too large."),
    422: ("Invalid", "A field is wrong."),
    429: ("TooMany", "Too many requests; see Retry-After."),
    503: ("Unavailable", "The database does not answer; see Retry-After."),
}


def describe(
    app: FastAPI, routers: Iterable[APIRouter], tags_of_builtins: Mapping[str, str]
) -> None:
    """`app.openapi()` gives our document from now on, made once."""
    roles = {
        operation_id(route): role_of(route)
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute)
    }

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            tags = _in_reading_order({**tags_of_builtins, **TAGS})
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=DESCRIPTION,
                routes=app.routes,
                tags=tags,
                servers=app.servers,
            )
            app.openapi_schema = _completed(
                document, {name: role.value if role else None for name, role in roles.items()}
            )
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _in_reading_order(tags: Mapping[str, str]) -> list[dict[str, str]]:
    first = [name for name in _READING_ORDER if name in tags]
    names = [*first, *(name for name in tags if name not in first)]
    return [{"name": name, "description": tags[name]} for name in names]


def _completed(document: dict[str, Any], roles: dict[str, str | None]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs")
    schemas["Problem"] = problem
    components["responses"] = {name: _response(about) for name, about in _PROBLEMS.values()}
    components["securitySchemes"] = {
        "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER},
        "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    }
    document["security"] = [{"key": []}, {"session": []}]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            _complete(path, method.upper(), operation, roles[operation["operationId"]])
    return document


def _complete(path: str, method: str, operation: dict[str, Any], role: str | None) -> None:
    if role is None:
        operation["security"] = []
    else:
        operation["x-required-role"] = role
    changes = method not in SAFE_METHODS
    for status, (name, _) in _PROBLEMS.items():
        needless = {
            404: "{" not in path and "404" not in operation["responses"],
            400: not changes,
            409: not changes,
            413: not changes,
            403: role is None,
        }
        if needless.get(status, False):
            continue
        operation["responses"][str(status)] = {"$ref": f"#/components/responses/{name}"}
    operation["responses"] = dict(sorted(operation["responses"].items()))
    for status, response in operation["responses"].items():
        if response.get("description") == "Successful Response":
            response["description"] = HTTPStatus(int(status)).phrase


def _response(about: str) -> dict[str, Any]:
    return {
        "description": about,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
