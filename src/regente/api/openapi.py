"""Completes the OpenAPI document: tags, required roles, problem responses."""

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
    "batches": "Tasks that are counted together: rounds, lots of quotes, executions.",
    "tasks": "Tasks of all pipelines.",
    "failures": "Dead letters: tasks that failed for good.",
    "runners": "Processes that run tasks.",
    "pipelines": "Known pipelines; pause and resume.",
    "lanes": "What shares a limit: hosts, tenants, API keys; set, park and open.",
    "schedules": "Cron schedules with their last and next runs; set, pause and resume.",
    "settings": "Runtime settings.",
    "events": "The event log, the audit log and exports.",
    "stream": "Live events.",
    "metrics": "Prometheus metrics.",
    "stats": "Statistics of the overview.",
    "actions": "Bulk actions and their progress.",
    "session": "Sign in and out.",
    "keys": "API keys.",
    "people": "People who signed in with the OpenID Connect provider.",
    "health": "Health check.",
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
    "lanes",
    "schedules",
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
    "people",
    "system",
    "scrape",
)
"""The tags whose order in the document differs from that of the built-ins."""
DESCRIPTION = (
    f"Authenticate with an API key in the header {KEY_HEADER}, or with the session cookie of a "
    "sign-in; with the cookie, requests that change something also need the header x-csrf-token. "
    "Roles: viewer reads, operator acts, admin changes the fleet, the settings and the keys. "
    "Errors are problem details (RFC 9457) with a stable code. Lists are paged: send `next` as "
    "`cursor`."
)
_PROBLEMS = {
    400: ("Malformed", "The request is malformed."),
    401: ("Unauthorized", "The key or session is missing or invalid."),
    403: ("Forbidden", "The role does not suffice, or the CSRF header is missing."),
    404: ("NotFound", "The resource does not exist."),
    409: ("Conflict", "The resource's state does not allow this."),
    413: ("TooLarge", "The body is too large."),
    422: ("Invalid", "A field is invalid."),
    429: ("TooMany", "Too many requests; see Retry-After."),
    503: ("Unavailable", "The database is unavailable; see Retry-After."),
}


def describe(
    app: FastAPI, routers: Iterable[APIRouter], tags_of_builtins: Mapping[str, str]
) -> None:
    """Make `app.openapi()` return the completed document, created once."""
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
