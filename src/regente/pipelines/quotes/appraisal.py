"""The price statistics of a quote, without outliers such as prices of parts or sets."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from statistics import mean, median, pstdev

from regente.pipelines.quotes.models import Appraisal, Evidence, Statistics

CENT = Decimal("0.01")
MANY_DEVIATIONS = Decimal("3.5") / Decimal("0.6745")
"""The usual bound on the modified z-score, as a multiple of the median absolute deviation."""
ALWAYS_NEAR = Decimal("0.25")
"""Prices within a quarter of the median are no outliers, even if all others are equal."""
MIN_FOR_DEVIATION = 4
ALWAYS_FAR = 3
"""Prices below a third or above three times the median are outliers, however few there are."""


def appraise(evidence: Sequence[Evidence]) -> Appraisal:
    priced = [(one.position, one.price) for one in evidence if one.price is not None]
    if not priced:
        return Appraisal(statistics=None, outliers=[])
    low, high = _bounds([price for _, price in priced])
    kept = [price for _, price in priced if low <= price <= high]
    outliers = [position for position, price in priced if not low <= price <= high]
    return Appraisal(statistics=_statistics(kept, len(outliers)), outliers=outliers)


def _bounds(prices: Sequence[Decimal]) -> tuple[Decimal, Decimal]:
    middle = median(prices)
    low, high = middle / ALWAYS_FAR, middle * ALWAYS_FAR
    if len(prices) >= MIN_FOR_DEVIATION:
        deviation = median([abs(price - middle) for price in prices])
        reach = max(deviation * MANY_DEVIATIONS, middle * ALWAYS_NEAR)
        low, high = max(low, middle - reach), min(high, middle + reach)
    return low, high


def _statistics(kept: Sequence[Decimal], outliers: int) -> Statistics:
    average, spread = mean(kept), pstdev(kept)
    return Statistics(
        value=_cents(median(kept)),
        mean=_cents(average),
        median=_cents(median(kept)),
        minimum=_cents(min(kept)),
        maximum=_cents(max(kept)),
        deviation=_cents(spread),
        variation=round(float(spread / average), 4),
        prices=len(kept) + outliers,
        kept=len(kept),
        outliers=outliers,
    )


def _cents(value: Decimal) -> Decimal:
    return value.quantize(CENT, ROUND_HALF_UP)
