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
    # What must stop.
    without(
        "stale attempts that go on",
        "to_be_stopped",
        " AND t.attempt = a.attempt",
    ),
    without(
        "attempts that go on after their task was taken back",
        "to_be_stopped",
        f"{RUNNER} {RUNNING}",
        instead=ANY_STATE,
    ),
    without(
        "cancels that no runner finds", "to_be_stopped", " OR t.cancel_requested_at IS NOT NULL"
    ),
    # The lease.
    without("claim without a lease", "claim", " AND r.lease_until > regente.clock()"),
    without("claim by a runner that has left", "claim", " AND r.status = 'running'"),
    without(
        "reap of living runners' tasks", "reap", "AND r.status < 'stopped'", instead="AND false"
    ),
    without(
        "runners lost before their time",
        "mark_lost_runners",
        " AND r.lease_until < regente.clock()",
    ),
    without(
        "runners forgiven without an outage",
        "mark_lost_runners",
        "AND (SELECT max(a.heartbeat_at) FROM regente.runners a WHERE a.status < 'stopped') "
        "< regente.clock() - r.lease / 2",
    ),
    without(
        "transactions of lost runners that go on",
        "end_sessions",
        "WHERE r.id = ANY (%(ids)s::bigint[])",
        instead="WHERE r.id = ANY (%(ids)s::bigint[]) AND false",
    ),
    without(
        "transactions of other runners ended",
        "end_sessions",
        "a.application_name || ' ' LIKE r.connections || ' %%'",
        instead="a.application_name LIKE 'regente runner%%'",
    ),
    without("no amnesty by the reaper", "mark_lost_runners", "r.amnesties < 2", instead="false"),
    without("no end of amnesties by the reaper", "mark_lost_runners", "r.amnesties < 2 AND"),
    without("no amnesty by a new runner", "register_runner", "r.id = silent.id", instead="false"),
    without("no end of amnesties by new runners", "register_runner", "AND r.amnesties < 2"),
    without("no amnesty by a renewal", "renew_lease", "r.id = silent.id", instead="false"),
    without("stalls of forgiven runners", "release_stalled", "AND alive.amnesties = 0"),
    without("renewal by a lost runner", "renew_lease", " AND status < 'stopped'"),
    # Idempotency.
    without(
        "steps that are not remembered",
        "recall_steps",
        "= %(task_id)s",
        instead="= -%(task_id)s::bigint",
    ),
    without(
        "results that are not recorded",
        "record_steps",
        "s.output::json,",
        instead="NULL::json,",
    ),
    without(
        "results that jsonb reorders",
        "record_steps",
        "s.output::json,",
        instead="s.output::jsonb,",
    ),
    without(
        "intents without the fence",
        "record_intent",
        "AND t.attempt = %(attempt)s",
        instead="AND %(attempt)s IS NOT NULL",
    ),
    without("intents in any state", "record_intent", f"{RUNNER} {RUNNING}", instead=ANY_STATE),
    without("open questions", "ask_about_intents", f"{RUNNER} {RUNNING}", instead=ANY_STATE),
    without("intents forgotten by all", "forget_intent", f"{RUNNER} {RUNNING}", instead=ANY_STATE),
    without(
        "intents that are not remembered",
        "recall_intents",
        "= %(task_id)s",
        instead="= -%(task_id)s::bigint",
    ),
    without(
        "keys that a restored copy gives out again",
        "claim",
        "(extract(epoch FROM created_at) * 1000000)::bigint AS born_us",
        instead="0::bigint AS born_us",
    ),
    without("decisions on a canceled task", "resolve", "AND t.status = 'queued'"),
    without(
        "second decisions",
        "resolve",
        "AND i.asked_at IS NOT NULL AND i.decision IS NULL RETURNING",
        instead="RETURNING",
    ),
    without(
        "signals received by any attempt",
        "receive_signal",
        "AND t.attempt = %(attempt)s",
        instead="AND %(attempt)s IS NOT NULL",
    ),
    without(
        "signals received in any state", "receive_signal", f"{RUNNER} {RUNNING}", instead=ANY_STATE
    ),
    without("signals received twice", "receive_signal", "AND s.ended_at IS NULL"),
    without(
        "children awaited by any attempt",
        "await_children",
        "AND t.attempt = %(attempt)s",
        instead="AND %(attempt)s IS NOT NULL",
    ),
    without(
        "children awaited in any state", "await_children", f"{RUNNER} {RUNNING}", instead=ANY_STATE
    ),
    without(
        "children recorded by any attempt",
        "record_children",
        "AND t.attempt = %(attempt)s",
        instead="AND %(attempt)s IS NOT NULL",
    ),
    without(
        "children recorded in any state",
        "record_children",
        f"{RUNNER} {RUNNING}",
        instead=ANY_STATE,
    ),
    without(
        "children that go on",
        "cancel",
        "SELECT regente.cancel_children(array_agg(e.id)) FROM ended e",
        instead="SELECT 1",
    ),
    without("calls that are not compared", "record_steps", "s.call FROM", instead="NULL FROM"),
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
    # Rows that other sessions have locked.
    without(
        "writes that wait for a locked row",
        "lock_free_tasks",
        "FOR UPDATE SKIP LOCKED",
        instead="FOR UPDATE",
    ),
    without(
        "intents that wait for a locked row",
        "record_intent",
        "FOR UPDATE SKIP LOCKED",
        instead="FOR UPDATE",
    ),
    # Counting.
    without(
        "crashes that are not counted",
        "reap",
        "crashes = t.crashes + v.blame",
        instead="crashes = t.crashes",
    ),
    without(
        "crashes charged for a runner that stopped", "reap", "r.status = 'stopped'", instead="false"
    ),
    without(
        "tries that are not counted",
        "settle",
        "tries = t.tries + o.charged",
        instead="tries = t.tries",
    ),
    without("batches that close early", "review_batches", "NOT l.live AND "),
    without(
        "batches that fail for want of a runner",
        "review_batches",
        " AND regente.batch_is_served(open.id, open.stall_after)",
    ),
    without(
        "batches that stall beside a healthy task",
        "review_batches",
        " AND NOT EXISTS (SELECT FROM regente.healthy_tasks(open.id))",
    ),
    # Sweeps.
    without(
        "sweeps without a pause",
        "take_turn",
        "begun_at <= regente.clock() - make_interval(secs => %(every_seconds)s::double precision)",
        instead="begun_at <= regente.clock() AND %(every_seconds)s > 0",
    ),
    without("throttled failures that pile up", "settle", "f.id > t.first", instead="false"),
    # The place in the queue.
    without(
        "handed back to the end of the queue",
        "settle",
        "coalesce(o.run_at, t.run_at)",
        instead="coalesce(o.run_at, regente.clock())",
    ),
    without("suspects run beside others", "claim", " AND t.crashes < 2"),
    # Lanes.
    without(
        "lanes without a limit",
        "claim_lanes",
        "greatest(0, least( k.concurrency - r.running,",
        instead="greatest(0, least( k.concurrency,",
    ),
    without(
        "calls past a full lane",
        "enter_lane",
        "WHEN m.running >= m.concurrency THEN 'full'",
    ),
    without(
        "calls past the rate",
        "enter_lane",
        "WHEN m.token_seconds > 0.000001 THEN 'rate'",
        instead="WHEN false THEN 'rate'",
    ),
    without(
        "calls in parked lanes", "enter_lane", "WHEN m.parked_until > regente.clock() THEN 'parked'"
    ),
    without(
        "calls beside a probe", "enter_lane", "WHEN m.breaker_state = 'probing' THEN 'probing'"
    ),
    without(
        "calls that do not probe",
        "enter_lane",
        "CASE j.breaker_state WHEN 'open' THEN f.id ELSE l.probe_id END",
        instead="CASE j.breaker_state WHEN 'open' THEN 0 ELSE l.probe_id END",
    ),
    without("calls that take no token", "enter_lane", "+ make_interval(secs => 1 / j.pace_rate)"),
    without("calls of attempts that are over", "enter_lane", "AND t.attempt = %(attempt)s"),
    without(
        "calls that take two places",
        "enter_lane",
        "CASE WHEN f.has_entered THEN NULL WHEN",
        instead="CASE WHEN",
    ),
    without("places that are forgotten", "forget_lost_calls", "AND t.attempt = c.attempt"),
    without("claims from parked lanes", "claim_lanes", "k.parked_until > regente.clock() OR"),
    without("two probes of a breaker", "claim_lanes", "OR k.breaker_state = 'probing'"),
    without(
        "breakers that probe with all",
        "claim_lanes",
        "CASE k.breaker_state WHEN 'open' THEN 1 END,",
    ),
    without(
        "tokens that are not taken",
        "claim_lanes",
        "+ make_interval(secs => v.took / v.pace_rate)",
    ),
    without(
        "lanes that do not take turns",
        "claim_lanes",
        "WHEN v.took < v.room THEN regente.clock()",
        instead="WHEN v.took < v.room THEN v.ready_at",
    ),
    without(
        "claims from lanes that do not raise the fence",
        "claim_lanes",
        "attempt = attempt + 1",
        instead="attempt = greatest(attempt, 1)",
    ),
    without(
        "claims from lanes without a lease", "claim_lanes", " AND r.lease_until > regente.clock()"
    ),
    without(
        "claims from lanes by a runner that has left", "claim_lanes", " AND r.status = 'running'"
    ),
    without(
        "claims from lanes of paused pipelines",
        "claim_lanes",
        "AND NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = w.pipeline AND p.paused)",
    ),
    without("suspects of lanes beside others", "claim_lanes", " AND t.crashes < 2"),
    without(
        "suspects past a full lane",
        "claim_lane_suspect",
        "coalesce(k.concurrency > r.running, true) AND",
    ),
    without(
        "lanes that are throttled and not parked",
        "report_lanes",
        "regente.clock() + make_interval(secs => j.park_seconds),",
    ),
    without("rates that do not fall", "report_lanes", "k.pace / 2", instead="k.pace"),
    without("rates that do not rise", "report_lanes", "+ k.passed * 0.05"),
    without(
        "breakers that do not open",
        "report_lanes",
        "WHEN p.breaker_state = 'closed' AND p.new_failures >= p.breaker THEN 'open'",
    ),
    without(
        "breakers that do not close",
        "report_lanes",
        "p.probe = 'passed' THEN 'closed'",
        instead="p.probe = 'passed' THEN 'open'",
    ),
    without(
        "lanes that no sweep finds",
        "lanes_to_look_at",
        "NOT EXISTS (SELECT FROM regente.lane_queues q",
        instead="EXISTS (SELECT FROM regente.lane_queues q",
    ),
    without(
        "probes that end while they run",
        "end_lost_probes",
        "AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = l.probe_id "
        "AND t.status IS NOT DISTINCT FROM 'running')",
    ),
    without(
        "lost probes that never end",
        "end_lost_probes",
        "l.breaker_state = 'probing'",
        instead="false",
    ),
    without(
        "retries that are due at once in a lane",
        "settle",
        "ELSE coalesce(o.run_at, t.lane_run_at) END",
        instead="ELSE t.lane_run_at END",
    ),
    # The queue.
    without(
        "claims from paused pipelines",
        "claim",
        "WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = w.pipeline AND p.paused)",
    ),
    without(
        "claims that ignore the floor's id",
        "claim",
        "(%(floor_ids)s::bigint[])[level.place])",
        instead="0 * (%(floor_ids)s::bigint[])[level.place])",
    ),
    without(
        "hints before the commit", "send_hints", "WHERE state = 'committed'", instead="WHERE true"
    ),
    # Schedules.
    without(
        "times that are run twice",
        "fire_schedule",
        "WHERE NOT EXISTS (SELECT FROM regente.schedule_runs r"
        " WHERE r.schedule = s.name AND r.due_at = w.due_at)",
    ),
    without(
        "runs beside an unfinished one", "fire_schedule", " AND NOT s.busy", instead=" AND true"
    ),
    without("several runs at once", "fire_schedule", "w.place = 1 AND"),
    without(
        "waiting runs that start beside an unfinished one",
        "start_waiting_run",
        "AND NOT EXISTS (SELECT FROM regente.tasks t"
        " WHERE t.id = s.last_task AND t.status < 'completed')",
    ),
    without("waiting runs that start twice", "start_waiting_run", "AND r.state = 'waiting'"),
    without(
        "paused schedules that fire",
        "due_schedules",
        "enabled AND paused_at IS NULL AND",
    ),
    without(
        "waiting runs of paused schedules", "waiting_schedules", "enabled AND paused_at IS NULL AND"
    ),
    without(
        "runs that are forgotten while they wait",
        "forget_schedule_runs",
        "AND r.state <> 'waiting'",
    ),
)
