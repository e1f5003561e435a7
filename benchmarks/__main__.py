"""`python -m benchmarks`: measures Regente and its peers, and writes `benchmarks/results`."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from subprocess import SubprocessError

import psycopg

from benchmarks import machine, measurements, report, solo
from benchmarks.catalogue import PEERS, Peer, Store
from benchmarks.environments import CannotInstallError, Environment, prepare
from benchmarks.measurements import Stage
from benchmarks.processes import PeerFailedError
from benchmarks.results import FIGURES, Run, Sample
from benchmarks.servers import PostgresServer, RedisServer
from benchmarks.targets import OURS

SHARED = ("drain1", "drain2", "enqueue", "latency", "steps")
SOLO = ("idle", "history", "memory", "sleeping")
IDLE_PEERS = (OURS, "pgqueuer")
FAILURES = (PeerFailedError, SubprocessError, psycopg.Error, TimeoutError, OSError)

Figures = dict[str, float]


def say(text: str) -> None:
    print(text, flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", default="", help=f"comma-separated: {', '.join(SHARED + SOLO)}")
    parser.add_argument(
        "--peers", default="", help=f"comma-separated: {', '.join(peer.name for peer in PEERS)}"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--tasks", type=int, default=20_000, help="tasks per drain and per bulk enqueue"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one round of few tasks, without writing results"
    )
    parser.add_argument(
        "--long", action="store_true", help="also the memory of a runner over a million tasks"
    )
    options = parser.parse_args(arguments)
    options.only = (
        options.only.split(",") if options.only else [*SHARED, "idle", "history", "sleeping"]
    )
    if options.long and "memory" not in options.only:
        options.only.append("memory")
    if unknown := set(options.only) - {*SHARED, *SOLO}:
        parser.error(f"unknown measurements: {', '.join(sorted(unknown))}")
    options.pings, options.step_tasks, options.idle_seconds, options.history = (
        300,
        1_000,
        60.0,
        1_000_000,
    )
    if options.quick:
        options.rounds, options.tasks, options.pings, options.step_tasks = (
            1,
            min(options.tasks, 2_000),
            50,
            200,
        )
        options.idle_seconds, options.history = 10.0, 20_000
    return options


def chosen_peers(wanted: str) -> list[Peer]:
    names = wanted.split(",") if wanted else [peer.name for peer in PEERS]
    if unknown := set(names) - {peer.name for peer in PEERS}:
        raise SystemExit(f"unknown peers: {', '.join(sorted(unknown))}")
    return [peer for peer in PEERS if peer.name in names]


def environments(peers: list[Peer], run: Run) -> list[Environment]:
    """Install what is missing; a peer that cannot be installed is left out."""
    ready = []
    for peer in peers:
        say(f"preparing {peer.label}")
        try:
            if peer.store is Store.REDIS and not RedisServer.is_installed():
                raise CannotInstallError(
                    "there is no redis-server: `apt-get install redis-server` as root, then again"
                )
            environment = prepare(peer)
        except CannotInstallError as error:
            run.skipped[peer.label] = str(error)
            say(f"  left out: {error}")
            continue
        run.versions[peer.name], run.settings[peer.name] = environment.version, peer.settings
        ready.append(environment)
    return ready


class Session:
    """Runs the measurements and collects samples; a failing peer is recorded and the run goes
    on."""

    def __init__(self, options: argparse.Namespace, run: Run, stages: list[Stage]) -> None:
        self.options = options
        self.run = run
        self.stages = stages

    def measure(self) -> None:
        for number in range(self.options.rounds):
            for name in (name for name in SHARED if name in self.options.only):
                for stage in self._rotated(number):
                    if name != "steps" or stage.peer.has_steps:
                        self._try(name, stage, number, self._shared(name, stage))
        ours = [stage for stage in self.stages if stage.peer.name == OURS]
        for stage in ours:
            self._measure_alone(stage)
        if "idle" in self.options.only:
            for stage in (stage for stage in self.stages if stage.peer.name in IDLE_PEERS):
                self._try("idle", stage, 0, partial(self._idle, stage))

    def _rotated(self, number: int) -> Iterator[Stage]:
        """Rotate the peers, so that another one begins each round."""
        count = len(self.stages)
        return (self.stages[(position + number) % count] for position in range(count))

    def _shared(self, name: str, stage: Stage) -> Callable[[], Figures]:
        options = self.options

        def latency() -> Figures:
            found = measurements.latency(stage, options.pings)
            return {"latency_p50": found.p50, "latency_p99": found.p99}

        choices: dict[str, Callable[[], Figures]] = {
            "drain1": lambda: {"drain1": measurements.drain(stage, options.tasks)},
            "drain2": lambda: {"drain2": measurements.drain(stage, options.tasks, processes=2)},
            "enqueue": lambda: {"enqueue": measurements.bulk_enqueue(stage, options.tasks)},
            "latency": latency,
            "steps": lambda: {"steps": measurements.steps(stage, options.step_tasks)},
        }
        return choices[name]

    def _measure_alone(self, stage: Stage) -> None:
        options = self.options
        if "sleeping" in options.only:
            self._try("sleeping", stage, 0, lambda: self._sleeping(stage))
        if "history" not in options.only and "memory" not in options.only:
            return
        if "history" in options.only:
            for number in range(options.rounds):
                self._try(
                    "history",
                    stage,
                    number,
                    lambda: {"history_none": measurements.drain(stage, options.tasks)},
                )
        self._try("memory", stage, 0, lambda: self._memory(stage))
        if "history" in options.only:
            for number in range(options.rounds):
                self._try(
                    "history",
                    stage,
                    number,
                    lambda: {"history_million": solo.drain_again(stage, options.tasks)},
                )

    def _memory(self, stage: Stage) -> Figures:
        """Create the history for the drains with one runner, and measure that runner's memory."""
        found = solo.finish_many(stage, self.options.history)
        return {"memory_early": found.early, "memory_late": found.late}

    def _sleeping(self, stage: Stage) -> Figures:
        found = solo.sleeping(stage)
        return {"sleeping_leases": found.updates, "sleeping_transactions": found.transactions}

    def _idle(self, stage: Stage) -> Figures:
        found = solo.idle(stage, self.options.idle_seconds)
        return {"idle_transactions": found.transactions_per_second, "idle_cpu": found.cpu_percent}

    def _try(self, name: str, stage: Stage, number: int, measure: Callable[[], Figures]) -> None:
        load = machine.load()
        try:
            figures = measure()
        except FAILURES as error:
            self.run.skipped[f"{stage.peer.label}, {name}, round {number + 1}"] = str(error)
            say(f"{name:>9} {stage.peer.label:<16} failed: {error}")
            return
        for figure, value in figures.items():
            self.run.samples.append(Sample(figure, stage.peer.name, number, value, load))
            shown = f"{FIGURES[figure].show(value)} {FIGURES[figure].unit}"
            say(
                f"{figure:>17} {stage.peer.label:<16} {shown:>20}   round {number + 1}, "
                f"load {load:.2f}"
            )


def main(arguments: list[str]) -> None:
    options = parse(arguments)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that the servers and workers are stopped
    shown = {"rounds": options.rounds, "tasks": options.tasks, "measured": ", ".join(options.only)}
    run = Run(machine.describe(), shown, {}, {})
    ready = environments(chosen_peers(options.peers), run)
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer())
        needs_redis = any(environment.peer.store is Store.REDIS for environment in ready)
        redis = stack.enter_context(RedisServer()) if needs_redis else None
        run.machine |= {f"PostgreSQL {name}": value for name, value in postgres.settings().items()}
        if redis:
            run.machine["Redis"] = (
                f"{redis.version()}, default settings (snapshots, no append-only file)"
            )
        run.machine["load before"] = f"{machine.load():.2f}"
        Session(
            options, run, [Stage(environment, postgres, redis) for environment in ready]
        ).measure()
        run.machine["load after"] = f"{machine.load():.2f}"
    say("\n" + report.table(run))
    if not options.quick:
        for path in report.write(run):
            say(f"wrote {path}")


main(sys.argv[1:])
