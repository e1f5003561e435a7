"""The checkpoints of a quote, with the original specification's names and order.

A step has the name of the checkpoint that it reaches.
"""

from __future__ import annotations

from enum import StrEnum


class Checkpoint(StrEnum):
    INIT = "INIT"
    AI_ANALYSIS_START = "AI_ANALYSIS_START"
    AI_ANALYSIS_DONE = "AI_ANALYSIS_DONE"
    FIPE_SEARCH = "FIPE_SEARCH"
    SHOPPING_SEARCH_START = "SHOPPING_SEARCH_START"
    SHOPPING_SEARCH_DONE = "SHOPPING_SEARCH_DONE"
    PRICE_EXTRACTION_START = "PRICE_EXTRACTION_START"
    PRICE_EXTRACTION_PROGRESS = "PRICE_EXTRACTION_PROGRESS"
    PRICE_EXTRACTION_DONE = "PRICE_EXTRACTION_DONE"
    FINALIZATION = "FINALIZATION"
    COMPLETED = "COMPLETED"


PERCENTAGES = {
    Checkpoint.INIT: 0,
    Checkpoint.AI_ANALYSIS_START: 5,
    Checkpoint.AI_ANALYSIS_DONE: 30,
    Checkpoint.FIPE_SEARCH: 50,
    Checkpoint.SHOPPING_SEARCH_START: 35,
    Checkpoint.SHOPPING_SEARCH_DONE: 45,
    Checkpoint.PRICE_EXTRACTION_START: 50,
    Checkpoint.PRICE_EXTRACTION_PROGRESS: 50,
    Checkpoint.PRICE_EXTRACTION_DONE: 90,
    Checkpoint.FINALIZATION: 95,
    Checkpoint.COMPLETED: 100,
}
EXTRACTION_SHARE = (
    PERCENTAGES[Checkpoint.PRICE_EXTRACTION_DONE]
    - PERCENTAGES[Checkpoint.PRICE_EXTRACTION_PROGRESS]
)


def percentage(checkpoint: str | None, tested: float | None) -> float:
    """The progress at a checkpoint, in percent; `tested` is the share of tested products."""
    if checkpoint not in tuple(Checkpoint):
        return 0.0
    done = float(PERCENTAGES[Checkpoint(checkpoint)])
    if checkpoint == Checkpoint.PRICE_EXTRACTION_PROGRESS:
        done += EXTRACTION_SHARE * (tested or 0.0)
    return round(done, 2)
