"""The account at the end: what should be, what is, and whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from regente.app import Regente
from regente.cli.output import Column, figure, plain, status_text, table, word
from regente.engine.models import BatchInfo
from regente.examples.prices import QUERIES, PageRequest, cents_of

FATAL_CODE = "LAYOUT_CHANGED"
_COLUMNS = (
    Column("WHAT"), figure("COUNT"), figure("EXPECTED"), word("")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    key: str
    count: int
    expected: int | None = None  # None: told, not judged

    @property
    def ok(self) -> bool:
        return self.expected is None or self.count == self.expected


@dataclass(frozen=True, slots=True)
class Verdict:
    batch: str
    lines: tuple[Line, ...]
    seconds: float

    @property
    def wrong(self) -> list[Line]:
        return [line for line in self.lines if not line.ok]

    @property
    def tasks_per_second(self) -> float:
        return self.lines[0].count / self.seconds

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": not self.wrong,
            "batch": self.batch,
            "seconds": round(self.seconds, 3),
            "tasks_per_second": round(self.tasks_per_second, 1),
            "counts": {line.key: line.count for line in self.lines},
            "expected": {line.key: line.expected for line in self.lines if line.expected is not None},
            "wrong": [line.key for line in self.wrong],
        }

    def as_table(self) -> Table:
        rows = [
            (plain(line.name), f"{line.count:,}", "" if line.expected is None else f"{line.expected:,}", _mark(line))
            for line in self.lines
        ]
        rows.append((plain("Tasks per second"), f"{self.tasks_per_second:.1f}", "", status_text("")))
        return table(_COLUMNS, rows)


def _mark(line: Line) -> Any:
    return status_text("" if line.expected is None else "ok" if line.ok else "wrong")


async def judge(
    app: Regente, batch: BatchInfo, pages: Sequence[PageRequest], killed: Sequence[int], held: int, seconds: float
) -> Verdict:
    """`killed` are the ids of the runners that were killed, `held` is how many tasks they held at that moment."""
    wanted = Counter(page.mood for page in pages)
    events = dict(await _ask(app, "count_events", batch_id=batch.id))
    recovered = (await _ask(app, "count_recovered", batch_id=batch.id, runners=list(killed)))[0][0]
    burnt = (await _ask(app, "count_burnt", batch_id=batch.id))[0][0]
    fatal = len(await app.tasks(statuses=["failed"], batch_id=batch.id, code=FATAL_CODE))
    kept = len(pages) - wanted["redesigned"] - wanted["sold_out"]
    lines = (
        Line("Tasks", "tasks", batch.total if batch.balanced else -1, len(pages)),
        Line("Completed", "completed", batch.completed, kept),
        Line("Failed (dead letters)", "failed", batch.failed, wanted["redesigned"]),
        Line(f"  of them {FATAL_CODE}", "failed_layout_changed", fatal, wanted["redesigned"]),
        Line("Skipped", "skipped", batch.skipped, wanted["sold_out"]),
        Line("Retries after a transient error", "retried", events.get("task_retried", 0), wanted["overloaded"]),
        Line("Waits for a rate limit", "throttled", events.get("task_throttled", 0)),
        Line("  attempts burnt by them", "burnt_by_throttling", burnt, 0),
        Line("Held by the killed runner", "held_by_killed", held),
        Line("  recovered from it", "recovered", recovered, max(1, held)),
        *_from_sink(await _ask(app, "stored_prices", batch=batch.name), pages),
    )
    return Verdict(batch.name, lines, seconds)


def _from_sink(rows: Sequence[tuple[int, int]], pages: Sequence[PageRequest]) -> tuple[Line, ...]:
    """From the demo's own table, whatever the engine believes."""
    stored = Counter(product for product, _ in rows)
    due = {page.product for page in pages if page.mood not in ("redesigned", "sold_out")}
    wrong = sum(cents != cents_of(product) or product not in due for product, cents in rows)
    return (
        Line("Prices stored", "stored", len(rows), len(due)),
        Line("  duplicates", "duplicates", sum(stored.values()) - len(stored), 0),
        Line("  lost", "lost", len(due - stored.keys()), 0),
        Line("  wrong", "wrong_prices", wrong, 0),
    )


async def _ask(app: Regente, name: str, **params: Any) -> list[tuple[Any, ...]]:
    async with app.database.transaction() as connection:
        return await (await connection.execute(QUERIES[name], params)).fetchall()
