"""One check at a time: each returns its evidence or says why it could not
pass; none stops the run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from regente.conformance.report import Finding, Verdict

MAX_EVIDENCE_CHARACTERS = 600
_HIDDEN = "***"

Context = TypeVar("Context")


class CheckFailed(Exception):
    """The service did not do what the contract says; the message is the evidence."""


class CheckInconclusive(Exception):
    """It could not be tried, because of what went wrong or came too soon before."""


class CheckSkipped(Exception):
    """It was not asked for, or cannot be seen from here: not required in this run."""


@dataclass(frozen=True, slots=True)
class Check(Generic[Context]):
    name: str
    section: str
    run: Callable[[Context], Awaitable[str]]
    required: bool = True


async def run_checks(
    checks: Sequence[Check[Context]], context: Context, *, secrets: Sequence[str]
) -> tuple[Finding, ...]:
    return tuple([await _find(check, context, secrets) for check in checks])


async def _find(check: Check[Context], context: Context, secrets: Sequence[str]) -> Finding:
    required = check.required
    try:
        verdict, evidence = Verdict.PASS, await check.run(context)
    except CheckFailed as unmet:
        verdict, evidence = (Verdict.FAIL if required else Verdict.OPTIONAL_MISSING), str(unmet)
    except CheckInconclusive as unproven:
        verdict, evidence = Verdict.SKIPPED, str(unproven)
    except CheckSkipped as reason:
        verdict, evidence, required = Verdict.SKIPPED, str(reason), False
    return Finding(check.name, check.section, required, verdict, _one_line(evidence, secrets))


def _one_line(evidence: str, secrets: Sequence[str]) -> str:
    line = " ".join(without(secrets, evidence).split())
    return line if len(line) <= MAX_EVIDENCE_CHARACTERS else f"{line[:MAX_EVIDENCE_CHARACTERS]}…"


def without(secrets: Sequence[str], text: str) -> str:
    """The text with its secrets hidden: a service may echo what it was sent."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        for form in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
        ):
            text = text.replace(form, _HIDDEN)
    return text


__all__ = ["Check", "CheckFailed", "CheckInconclusive", "CheckSkipped", "run_checks", "without"]
