"""Filters of a scrape, as requests carry them."""

from __future__ import annotations

from datetime import date
from typing import Any

from regente.contracts.worker import Filters


def filters(
    start: str = "2025-01-10",
    end: str | None = None,
    media: str = "all",
    languages: tuple[str, ...] = ("pt",),
) -> Filters:
    days = {"start": date.fromisoformat(start), "end": date.fromisoformat(end or start)}
    return Filters.model_validate(
        {"date_range": days, "format": media, "languages": list(languages)}
    )


def payload(wanted: Filters, **options: Any) -> dict[str, Any]:
    return {
        "filters": wanted.model_dump(mode="json"),
        "options": {"max_ads": "all", "batch_size": 150, **options},
    }
