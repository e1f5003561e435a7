"""The findings of an examination, one per check, and whether the service is conformant."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105
    FAIL = "FAIL"
    SKIPPED = "skipped"
    OPTIONAL_MISSING = "optional-missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's result. The service is conformant only if all `required` ones pass."""

    name: str
    section: str
    required: bool
    verdict: Verdict
    evidence: str


@dataclass(frozen=True, slots=True)
class Report:
    service: str
    url: str
    findings: tuple[Finding, ...]

    @property
    def conformant(self) -> bool:
        return all(finding.verdict is Verdict.PASS for finding in self.findings if finding.required)

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(finding.name for finding in self.findings if finding.verdict is Verdict.FAIL)

    def verdict_of(self, name: str) -> Verdict:
        return next(finding.verdict for finding in self.findings if finding.name == name)

    def counts(self) -> dict[str, int]:
        found = Counter(finding.verdict for finding in self.findings)
        return {verdict.value: found[verdict] for verdict in Verdict}

    def as_json(self) -> dict[str, Any]:
        checks = [
            {
                "name": one.name,
                "section": one.section,
                "required": one.required,
                "verdict": one.verdict.value,
                "evidence": one.evidence,
            }
            for one in self.findings
        ]
        return {
            "service": self.service,
            "url": self.url,
            "conformant": self.conformant,
            "counts": self.counts(),
            "checks": checks,
        }


__all__ = ["Finding", "Report", "Verdict"]
