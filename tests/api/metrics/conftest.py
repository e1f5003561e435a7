"""Parses the response of `/metrics`."""

from __future__ import annotations

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.api.conftest import Served


class Samples:
    def __init__(self, text: str) -> None:
        self.families: list[Metric] = list(text_string_to_metric_families(text))
        self.samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels."""
        found = [
            value
            for (known, given), value in self.samples.items()
            if known == name and labels.items() <= dict(given).items()
        ]
        assert found, f"no sample of {name} with {labels}"
        return sum(found)

    def names(self) -> set[str]:
        """Names that a query may use, also of families without a sample yet."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        return {
            family.name + suffix
            for family in self.families
            for suffix in suffixes.get(family.type, ("",))
        }

    def labels(self, name: str) -> set[str]:
        return {label for known, given in self.samples if known == name for label, _ in given}


async def scrape(api: Served) -> Samples:
    answer = await api.viewer.get("/metrics")
    assert answer.status_code == 200, answer.text
    return Samples(answer.text)
