"""Runs one check at a time; a check returns its evidence or raises why it failed."""

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
    """The service broke the contract; the message is the evidence."""


class CheckInconclusive(Exception):
    """The check could not be made, because an earlier one failed."""


class CheckSkipped(Exception):
    """The check was not requested or is impossible from here; it is not required in this run."""


@dataclass(frozen=True, slots=True)
class Check(Generic[Context]):
    name: str
    section: str
    run: Callable[[Context], Awaitable[str]]
    required: bool = True


async def run_checks(
    checks: Sequence[Check[Context]], context: Context, *, secrets: Sequence[str]
) -> tuple[Finding, ...]:
    return tuple([await _run_check(check, context, secrets) for check in checks])


async def _run_check(check: Check[Context], context: Context, secrets: Sequence[str]) -> Finding:
    required = check.required
    try:
        verdict, evidence = Verdict.PASS, await check.run(context)
    except CheckFailed as error:
        verdict, evidence = (Verdict.FAIL if required else Verdict.OPTIONAL_MISSING), str(error)
    except CheckInconclusive as error:
        verdict, evidence = Verdict.SKIPPED, str(error)
    except CheckSkipped as reason:
        verdict, evidence, required = Verdict.SKIPPED, str(reason), False
    return Finding(check.name, check.section, required, verdict, _one_line(evidence, secrets))


def _one_line(evidence: str, secrets: Sequence[str]) -> str:
    line = " ".join(hide_secrets(secrets, evidence).split())
    return line if len(line) <= MAX_EVIDENCE_CHARACTERS else f"{line[:MAX_EVIDENCE_CHARACTERS]}…"


def hide_secrets(secrets: Sequence[str], text: str) -> str:
    """Return the text with its secrets hidden: a service may repeat what it was sent."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        for form in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
        ):
            text = text.replace(form, _HIDDEN)
    return text


__all__ = [
    "Check",
    "CheckFailed",
    "CheckInconclusive",
    "CheckSkipped",
    "hide_secrets",
    "run_checks",
]
