"""The contract's requests with this worker's own limits: valid Unicode, plausible language tags."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, StringConstraints, model_validator

from regente.contracts.worker import Filters, ScrapeRequest, SessionRequest

LanguageTag = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z]{1,8}([-_][A-Za-z0-9]{1,8}){0,4}$")
]


class WorkerFilters(Filters):
    languages: list[LanguageTag] = Field(min_length=1, max_length=100)


class WorkerScrape(ScrapeRequest):
    filters: WorkerFilters


class WorkerSessionRequest(SessionRequest):
    @model_validator(mode="before")
    @classmethod
    def _encodable(cls, body: Any) -> Any:
        """Refuse lone surrogates, which JSON can spell and UTF-8 cannot."""
        try:
            json.dumps(body, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError("the text is not valid Unicode") from None
        return body
