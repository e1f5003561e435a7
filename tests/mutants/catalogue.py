"""Guards to remove, one at a time: pieces of the engine's SQL, each expected exactly once, with any
line breaks. A changed statement needs a changed entry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """`guards` are removed together: where one backs the other, only both make a difference."""

    name: str
    query: str
    guards: tuple[str, ...]
    instead: str = ""

    def applied_to(self, queries: Mapping[str, str]) -> dict[str, str]:
        text = queries[self.query]
        for guard in self.guards:
            pattern = re.compile(r"\s+".join(map(re.escape, re.split(r"\s+", guard))))
            text, found = pattern.subn(lambda _: self.instead, text)
            if found != 1:
                raise LookupError(
                    f"{self.name}: {self.query} holds {guard!r} {found} times instead of once"
                )
        return {**queries, self.query: text}


def without(name: str, query: str, *guards: str, instead: str = "") -> Mutant:
    return Mutant(name, query, guards, instead)


RUNNER = "AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint"
ANY_RUNNER = (
    "AND t.runner_id IS NOT DISTINCT FROM t.runner_id AND %(runner_id)s::bigint IS NOT NULL"
)
ANY_STATE = "AND %(runner_id)s::bigint IS NOT NULL"
RUNNING = "AND t.status IS NOT DISTINCT FROM 'running'"

MUTANTS: tuple[Mutant, ...] = (
    # The fence.
    without("finish without the fence", "finish", " AND t.attempt = o.attempt"),
    without("settle without the fence", "settle", "t.attempt = o.attempt", instead="true"),
    without("record_steps without the fence", "record_steps", " AND t.attempt = m.attempt"),
    without(
        "add_event without the fence",
        "add_event",
        " AND t.attempt = %(attempt)s",
        instead=" AND %(attempt)s IS NOT NULL",
    ),
    without(
        "claim that does not raise the fence",
        "claim",
        "attempt = attempt + 1",
        instead="attempt = greatest(attempt, 1)",
    ),
    # The owner.
    without("finish by any runner", "finish", RUNNER, instead=ANY_RUNNER),
    without("settle by any runner", "settle", RUNNER, instead=ANY_RUNNER),
    without("record_steps by any runner", "record_steps", RUNNER, instead=ANY_RUNNER),
    # The state.
    without("finish in any state", "finish", f"{RUNNER} {RUNNING}", instead=ANY_STATE),
    without("settle in any state", "settle", f"{RUNNER} {RUNNING}", instead=ANY_STATE),
    without("record_steps in any state", "record_steps", f"{RUNNER} {RUNNING}", instead=ANY_STATE),
    without("claim in any state", "claim", " AND t.status = 'queued'", "status = 'queued' AND "),
    without("cancel in any state", "cancel", " AND target.status IN ('draft', 'queued')"),
    without(
        "retry in any state", "retry", " AND target.status IN ('failed', 'canceled', 'skipped')"
    ),
    without(
        "resume in any state",
        "resume_batch",
        " AND status = 'stalled'",
        " AND b.status = 'stalled'",
    ),
    # The lease.
    without("claim without a lease", "claim", " AND r.lease_until > regente.clock()"),
    without("claim by a runner that has left", "claim", " AND r.status = 'running'"),
    without(
        "reap of living runners' tasks", "reap", "AND r.status < 'stopped'", instead="AND false"
    ),
    without(
        "runners lost before their time", "mark_lost_runners", " AND lease_until < regente.clock()"
    ),
    without("renewal by a lost runner", "renew_lease", " AND status < 'stopped'"),
    # Idempotency.
    without(
        "steps that are not remembered",
        "recall_steps",
        "= %(task_id)s",
        instead="= -%(task_id)s::bigint",
    ),
    without(
        "transactions that record no step",
        "record_steps",
        "JOIN fenced ON fenced.id = s.task_id",
        instead="JOIN fenced ON false",
    ),
    without(
        "keys that do not count",
        "insert_tasks",
        "SELECT pipeline, args::jsonb, key,",
        instead="SELECT pipeline, args::jsonb, NULL,",
    ),
    without(
        "sleeps that are not remembered",
        "settle",
        "WHERE jsonb_typeof(sleep) = 'object'",
        instead="WHERE false",
    ),
    # Counting.
    without(
        "crashes that are not counted",
        "reap",
        "crashes = t.crashes + v.blame",
        instead="crashes = t.crashes",
    ),
    without(
        "tries that are not counted",
        "settle",
        "tries = t.tries + o.charged",
        instead="tries = t.tries",
    ),
    without("batches that close early", "review_batches", "NOT l.live AND "),
    without("suspects run beside others", "claim", " AND t.crashes < 2"),
)
