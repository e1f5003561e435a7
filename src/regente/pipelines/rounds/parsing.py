"""Parses a page with its site's adapter and checks what came out, for every site alike.

The functions get and return what another process can: large pages are parsed in a child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from regente.engine.errors import TaskError
from regente.pipelines.rounds.adapters import AdapterFailed, InvalidData, Page, PageIncomplete
from regente.pipelines.rounds.load_adapters import load_adapter
from regente.pipelines.rounds.models import Fixture, MatchSheet, PlayState, RoundSheet

MAX_ERRORS = 20
MAX_SHOWN_CHARACTERS = 100
PAGE_END = "</html>"

Model = TypeVar("Model", bound=BaseModel)


def parse_round(adapter: str, html: str, url: str, league: str, number: str) -> RoundSheet:
    page = Page(html, url, league, int(number))
    values = _values(adapter, "discover", page)
    return checked(RoundSheet, {"league": league, **values})


def parse_match(adapter: str, html: str, url: str, league: str) -> Fixture | MatchSheet:
    """The match; before its end only its fixture."""
    values = _values(adapter, "parse", Page(html, url, league, None))
    about = {name: values[name] for name in Fixture.model_fields if name in values}
    fixture = checked(Fixture, about)
    return checked(MatchSheet, values) if fixture.status is PlayState.FINISHED else fixture


def checked(model: type[Model], values: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = [
            {
                "field": ".".join(map(str, one["loc"])) or "page",
                "message": one["msg"],
                "value": _shown(one.get("input")),
            }
            for one in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]
        ]
        raise InvalidData(
            "; ".join(f"{one['field']}: {one['message']}" for one in found[:5]),
            details={"errors": found, "page": model.__name__},
        ) from None


def _values(reference: str, method: str, page: Page) -> dict[str, Any]:
    adapter = load_adapter(reference)
    page_end = getattr(adapter, "page_end", PAGE_END)
    if page_end.lower() not in page.html[-2000:].lower():
        raise PageIncomplete(
            f"the page does not end with {page_end}: it is incomplete or not a page"
        )
    function: Callable[[Page], Any] = getattr(adapter, method)
    where = f"{method} of the site's adapter {reference}"
    try:
        values = function(page)
    except TaskError:
        raise
    except Exception as error:
        raise AdapterFailed(f"{where} failed: {type(error).__name__}: {error}") from error
    if not isinstance(values, Mapping):
        raise AdapterFailed(f"{where} returned {type(values).__name__}, not a dict")
    return dict(values)


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else repr(value)[:MAX_SHOWN_CHARACTERS]
