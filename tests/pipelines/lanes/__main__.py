"""`python -m tests.pipelines.lanes [KILLS] [AMOUNT]`: limits of our own pipelines under kills."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks.servers import PostgresServer

from regente import Regente
from tests.pipelines.lanes.campaign import RATES, run


async def main(kills: int, amount: int) -> int:
    with PostgresServer() as postgres, tempfile.TemporaryDirectory() as folder:
        postgres.fresh_database("lanes")
        url = postgres.url("lanes")
        components = ["quotes", "documents", "embeddings", "rounds"]
        async with Regente(url, components=components):
            pass
        found = await run(url, Path(folder), kills=kills, amount=amount)
    rates = {what: found.counts.rate(what) for what in RATES}
    sys.stdout.write(
        f"{found.kills} kills, left {found.left} {found.waits}; "
        f"at once {dict(found.counts.most)}; per second "
        + ", ".join(f"{what} {rates[what]:.2f} of {RATES[what]}" for what in RATES)
        + f"; calls { {what: len(began) for what, began in found.counts.began.items()} }\n"
    )
    too_fast = [what for what in RATES if rates[what] > RATES[what] * 1.05]
    return 1 if found.exceeded or found.left or too_fast else 0


if __name__ == "__main__":
    arguments = [int(one) for one in sys.argv[1:]]
    sys.exit(asyncio.run(main(*arguments, *(10, 4)[len(arguments) :])))
