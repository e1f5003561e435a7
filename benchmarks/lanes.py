"""`python -m benchmarks.lanes`: draining tasks in lanes beside tasks without one.

One process drains the same number of tasks with and without lanes, taking turns; by default
1,000,000 in 10,000 lanes. Each lane has a limit of 4 with `--limit 4`. The wanted ratio is 0.7.
With `--tenant`, ten tasks of a small tenant are enqueued while the tasks of a large one, in a lane
of their own, are worked on: how long it takes until the last of them has started.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from statistics import median

from benchmarks import machine
from benchmarks.catalogue import OURS
from benchmarks.environments import prepare
from benchmarks.measurements import Stage, drain_backlog
from benchmarks.processes import crew
from benchmarks.servers import PostgresServer
from regente import Regente
from regente.engine.pipeline import Registry

WANTED_RATIO = 0.7
WANTED_SECONDS = 1.0
SMALL = 10


def drain(stage: Stage, kind: str, tasks: int) -> float:
    """Tasks per second."""
    stage.clear()
    stage.enqueue(kind, tasks)
    return drain_backlog(stage, tasks, kind=kind)


async def seconds_until_started(url: str) -> float:
    """Of tasks that are enqueued in a lane of their own while others are worked on."""
    pipelines = Registry()
    pipelines.declare("laned")
    async with Regente(url, pipelines=pipelines) as app:
        began = time.monotonic()
        ids = await app.enqueue_many("laned", [{"n": n} for n in range(SMALL)], lane="small")
        while not all([(await app.get(one)).started_at for one in ids]):
            await asyncio.sleep(0.01)
        return time.monotonic() - began


def tenant(stage: Stage, tasks: int) -> float:
    os.environ["BENCH_LANES"] = "1"
    stage.clear()
    stage.enqueue("laned", tasks)
    stage.settle()
    with crew(stage.environment, stage.url, "laned") as working:
        working.go()
        working.wait_until_handled(tasks // 100, 60.0)
        found = asyncio.run(seconds_until_started(stage.url))
        left = stage.unfinished()
        working.stop()
    print(f"10 tasks beside {tasks:,} of a large tenant: started in {found:.2f} s, {left:,} left")
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.lanes", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--lanes", type=int, default=10_000)
    parser.add_argument("--limit", type=int, default=0, help="running tasks of a lane; 0: any")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tenant", action="store_true")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ["BENCH_LANES"] = str(options.lanes)
    os.environ["BENCH_LANE_LIMIT"] = str(options.limit)
    with PostgresServer() as postgres:
        stage = Stage(prepare(OURS), postgres)
        if options.tenant:
            return 0 if tenant(stage, options.tasks) <= WANTED_SECONDS else 1
        rates: dict[str, list[float]] = {"noop": [], "laned": []}
        for number in range(options.rounds):
            for kind in ("noop", "laned")[:: 1 if number % 2 else -1]:
                rates[kind].append(drain(stage, kind, options.tasks))
                print(
                    f"round {number + 1}  {kind:<6} {rates[kind][-1]:>8,.0f} tasks/s, "
                    f"load {machine.load():.2f}",
                    flush=True,
                )
    ratios = [one / other for one, other in zip(rates["laned"], rates["noop"], strict=True)]
    found = median(ratios)
    limit = f" with a limit of {options.limit}" if options.limit else ""
    print(f"\n{options.tasks:,} tasks in {options.lanes:,} lanes{limit}: {found:.2f} of without")
    return 0 if found >= WANTED_RATIO else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
