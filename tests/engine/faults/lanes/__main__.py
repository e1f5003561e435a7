"""`python -m tests.engine.faults.lanes [SECONDS] [KILLS]`: limits and rate under kills."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.servers import PostgresServer

from regente import Regente
from tests.engine.faults.lanes import pipelines as _registered  # noqa: F401 - for the client
from tests.engine.faults.lanes.campaign import LANES, RATE, exceeded, run


async def main(seconds: float, kills: int) -> int:
    with PostgresServer() as postgres:
        postgres.fresh_database("lanes")
        url = postgres.url("lanes")
        async with Regente(url):
            pass
        found = await run(
            url,
            tasks=int(seconds * LANES * 30),
            paced=int(seconds * RATE) + 1,
            kills=kills,
            kill_every=seconds / max(1, kills) / 2,
        )
    wrong = exceeded(found)
    deviation = abs(found.rate() / RATE - 1)
    sys.stdout.write(
        f"{found.kills} kills, {found.left} left; at once {found.most}; starts {found.counts}; "
        f"{found.rate():.2f} per second instead of {RATE} ({deviation:.1%} off)\n"
    )
    return 1 if wrong or found.left or deviation > 0.05 else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        asyncio.run(
            main(
                float(arguments[0]) if arguments else 60.0,
                int(arguments[1]) if len(arguments) > 1 else 10,
            )
        )
    )
