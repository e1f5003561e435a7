"""The demo's report: every mission has its expected status, every ad is stored or explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regente.app import Regente
from regente.cli.demo.plan import Expectation
from regente.cli.output import Column, duration, figure, status_text, table
from regente.pipelines.missions.read_models import Mission
from regente.queries import Queries

if TYPE_CHECKING:
    from rich.console import RenderableType

QUERIES = Queries(Path(__file__).with_name("demo.sql"))


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A count that must be `expected`, or at least `least`; without both it is only shown."""

    name: str
    key: str
    count: int
    expected: int | None = None
    least: int | None = None

    @property
    def ok(self) -> bool:
        return (self.expected is None or self.count == self.expected) and (
            self.least is None or self.count >= self.least
        )


@dataclass(frozen=True, slots=True)
class DemoReport:
    lines: tuple[ReportLine, ...]
    seconds: float

    @property
    def wrong(self) -> list[ReportLine]:
        return [line for line in self.lines if not line.ok]

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "ok": not self.wrong,
            **{line.key: line.count for line in self.lines},
        }

    def as_table(self) -> RenderableType:
        rows: list[tuple[RenderableType, ...]] = [
            (line.name, f"{line.count:,}", _target(line), status_text("ok" if line.ok else "wrong"))
            for line in self.lines
        ]
        rows.append(("Time", duration(self.seconds), "", ""))
        return table((Column("WHAT"), figure("COUNT"), Column("MUST BE"), Column("")), rows)


async def make_report(
    app: Regente,
    missions: Sequence[Mission],
    expected: dict[int, Expectation],
    since: datetime,
    seconds: float,
) -> DemoReport:
    ids = [mission.id for mission in missions]
    rows = partial(QUERIES.fetch_all, app.database)
    (counts,) = await rows("counts", since=since)
    failed = {(row["mission_id"], row["id"]) for row in await rows("failed_ads", ids=ids)}
    due = {
        ad
        for mission_id, mission in expected.items()
        for ad in mission.ads
        if (mission_id, ad) not in failed
    }
    stored = {row["id"] for row in await rows("stored_ads", ids=list(due))}
    right = sum(mission.status == expected[mission.id].status for mission in missions)
    known = sum(len(mission.ads) for mission in expected.values())
    spoiled = sum(mission.spoiled for mission in expected.values())
    lines = (
        ReportLine("Missions", "missions", len(missions), len(expected)),
        ReportLine("  with their expected status", "right", right, len(expected)),
        ReportLine("Ads found", "ads_found", _sum(missions, "ads_count"), known),
        ReportLine(
            "Ads stored", "ads_stored", _sum(missions, "success_count"), known - len(failed)
        ),
        ReportLine(
            "Rows failed, each explained",
            "rows_failed",
            _sum(missions, "failed_count"),
            len(failed),
            spoiled,
        ),
        ReportLine("Retries", "retries", counts["retries"], least=3),
        ReportLine("Waits for a rate limit", "waits", counts["waits"], least=1),
        ReportLine("Failed sessions", "failed_sessions", counts["failed_sessions"], least=2),
        ReportLine("Takeovers from the killed runner", "takeovers", counts["takeovers"], least=1),
        ReportLine(
            "Duplicates", "duplicates", (await rows("repeated_work", ids=ids))[0]["count"], 0
        ),
        ReportLine("Lost", "lost", len(due - stored), 0),
        ReportLine(
            "Proxies still reserved", "held_proxies", (await rows("held_proxies"))[0]["count"], 0
        ),
    )
    return DemoReport(lines, seconds)


def _sum(missions: Sequence[Mission], name: str) -> int:
    return sum((mission.result or {}).get(name) or 0 for mission in missions)


def _target(line: ReportLine) -> str:
    if line.expected is not None:
        return f"{line.expected:,}"
    return f"at least {line.least}" if line.least is not None else ""
