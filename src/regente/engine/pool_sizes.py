"""How many connections the pools of a process open at most."""

from __future__ import annotations

from dataclasses import dataclass

DEDICATED = 4
"""Connections of a runner outside its pools: lease, claims, notifications, stalled tasks."""
LEAST_CONNECTIONS = 9
FEWEST, MOST = 10, 32
SHARE = 4


@dataclass(frozen=True, slots=True)
class PoolSizes:
    tasks: int = 10
    """For transactions of pipelines; as many more for the client calls inside them."""
    client: int = SHARE
    runner: int = SHARE

    @property
    def connections(self) -> int:
        """What a process with one runner opens at most, the dedicated ones included."""
        return DEDICATED + 2 * self.tasks + self.client + self.runner

    @classmethod
    def within(cls, connections: int) -> PoolSizes:
        """The pools of a process that opens no more than so many connections. The runner's
        statements have two, so that a slow one does not delay all others."""
        spare = max(connections, LEAST_CONNECTIONS) - DEDICATED
        share = min(SHARE, spare // 7)
        client, runner = max(1, share), max(2, share)
        return cls(tasks=(spare - client - runner) // 2, client=client, runner=runner)

    @classmethod
    def of(cls, concurrency: int) -> PoolSizes:
        """The pools of a runner of so many tasks at once: a connection for every two of them, but
        no fewer than 10 and no more than 32."""
        return cls.within(min(MOST, max(FEWEST, concurrency // 2)))
