"""`python -m benchmarks.pinned`: draining while another session holds an old snapshot.

Nothing that was claimed or deleted since can be removed from tables and indexes, so a queue that
searches from the beginning gets slower with every task. Regente, PgQueuer and Graphile Worker drain
the same backlog in one process with and without such a session, taking turns. Beside the whole
drain its last tenth is shown, where most is in the way. The wanted ratio, for Regente, is 0.7.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from benchmarks import machine
from benchmarks.catalogue import PEERS
from benchmarks.environments import CannotInstallError, prepare
from benchmarks.measurements import DRAIN_SECONDS, Stage
from benchmarks.processes import Crew, crew
from benchmarks.servers import PostgresServer
from benchmarks.targets import OURS

WANTED_RATIO = 0.7
WITH_PEERS = (OURS, "pgqueuer", "graphile")


@dataclass(frozen=True, slots=True)
class Drain:
    """Tasks per second."""

    whole: float
    last_tenth: float


@contextmanager
def old_snapshot(stage: Stage) -> Iterator[None]:
    """A session in the same database that keeps what it saw at the beginning of the block."""
    with stage.postgres.connect(stage.database) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.execute("COMMIT")


def drain(stage: Stage, count: int, *, pinned: bool) -> Drain:
    stage.clear()
    if pinned:
        with old_snapshot(stage):
            return drain_backlog(stage, count)
    return drain_backlog(stage, count)


def drain_backlog(stage: Stage, count: int) -> Drain:
    stage.enqueue("noop", count)
    stage.settle()
    with crew(stage.environment, stage.url, "noop") as working:
        working.go()
        tenth_at = wait_for(working, count * 9 // 10)
        finished_at = wait_for(working, count)
        stage.wait_until_committed()
        stage.verify(working, count)
        working.stop()
    return Drain(
        count / (finished_at - working.started_ns / 1e9), count / 10 / (finished_at - tenth_at)
    )


def wait_for(working: Crew, count: int) -> float:
    """The monotonic time when that many tasks were handled."""
    working.wait_until_handled(count, DRAIN_SECONDS)
    return time.monotonic()


def ratio(pinned: list[float], free: list[float]) -> float:
    """The median of each round's ratio: a disturbance affects both sides of a round."""
    return median(one / other for one, other in zip(pinned, free, strict=True))


def report(rates: dict[tuple[str, bool], list[Drain]], peers: list[str]) -> float:
    """Print the table; the ratio of our whole drains."""
    found = {}
    print(f"\n{'tasks/s':<17} {'without':>9} {'with':>9} {'ratio':>6} {'last tenth':>11}")
    for peer in peers:
        free, pinned = rates[peer, False], rates[peer, True]
        found[peer] = ratio([one.whole for one in pinned], [one.whole for one in free])
        last = ratio([one.last_tenth for one in pinned], [one.last_tenth for one in free])
        rates_shown = [median(one.whole for one in side) for side in (free, pinned)]
        print(
            f"{peer:<17} {rates_shown[0]:>9,.0f} {rates_shown[1]:>9,.0f} "
            f"{found[peer]:>6.2f} {last:>11.2f}"
        )
    return found[OURS]


def stages(names: list[str], postgres: PostgresServer) -> Iterator[Stage]:
    for peer in (peer for peer in PEERS if peer.name in names):
        try:
            yield Stage(prepare(peer), postgres)
        except CannotInstallError as error:
            print(f"{peer.label} is left out: {error}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.pinned", description=__doc__)
    parser.add_argument("--tasks", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(WITH_PEERS))
    parser.add_argument("--quick", action="store_true", help="one round of 30,000 tasks")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rounds, tasks = (1, 30_000) if options.quick else (options.rounds, options.tasks)
    rates: dict[tuple[str, bool], list[Drain]] = {}
    with PostgresServer() as postgres:
        ready = list(stages(options.peers.split(","), postgres))
        for number in range(rounds):
            for stage in ready:
                for pinned in (False, True)[:: 1 if number % 2 else -1]:
                    found = drain(stage, tasks, pinned=pinned)
                    rates.setdefault((stage.peer.name, pinned), []).append(found)
                    print(
                        f"round {number + 1}  {stage.peer.label:<16} "
                        f"{'old snapshot' if pinned else 'none':<12} {found.whole:>8,.0f} tasks/s, "
                        f"last tenth {found.last_tenth:>8,.0f}, load {machine.load():.2f}",
                        flush=True,
                    )
    ours = report(rates, [stage.peer.name for stage in ready])
    print(f"\nwanted {WANTED_RATIO} of Regente: {'ok' if ours >= WANTED_RATIO else 'too slow'}")
    return 0 if ours >= WANTED_RATIO else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
