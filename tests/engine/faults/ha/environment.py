"""What a campaign with failovers breaks: the runners, and a cluster under Patroni."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tests.engine.faults.chaos.environment import Action, Environment
from tests.engine.faults.chaos.plan import Fault
from tests.engine.faults.ha.cluster import NODES, Cluster
from tests.engine.faults.ha.network import Network, new_network
from tests.engine.faults.ha.programs import find_programs
from tests.support.eventually import eventually_async

RECOVER_SECONDS = 180.0  # until the campaign fails; says nothing about the expected duration


class FailingOver(Environment):
    def __init__(self, folder: Path, network: Network | None = None) -> None:
        self._network = network or new_network(NODES)
        self._cluster = Cluster(folder, find_programs(folder), self._network)
        self._one_at_a_time = asyncio.Lock()
        super().__init__(folder, self._cluster.url)
        try:
            self._cluster.start()
        except BaseException:
            self.close()
            raise

    @property
    def how(self) -> str:
        """How nodes are separated."""
        if self._network.can_cut:
            return "nodes in network namespaces, cut off by the network"
        return "nodes on the loopback, frozen instead of cut off (only root can make namespaces)"

    def actions(self) -> dict[str, Action]:
        return {
            **super().actions(),
            "switchover": self._in_turn(self._switch_over),
            "kill primary": self._in_turn(self._kill("leader")),
            "kill standby": self._in_turn(self._kill("sync_standby")),
            "partition primary": self._in_turn(self._separate(self._network.cut)),
            "mute primary": self._in_turn(self._separate(self._network.mute)),
        }

    def _in_turn(self, action: Action) -> Action:
        """The action on a healthy cluster, until it is healthy again."""

        async def acted(fault: Fault) -> None:
            async with self._one_at_a_time:
                await action(fault)
                await self._healthy()

        return acted

    async def _switch_over(self, fault: Fault) -> None:
        leader, candidate = self._cluster.member("leader"), self._cluster.member("sync_standby")
        began = time.time()
        told = await asyncio.to_thread(self._cluster.switch_over, leader, candidate)
        await self.until_back(began)
        self._note(fault, f"from {leader} to {candidate}: {told}", began)

    def _kill(self, role: str) -> Action:
        async def killed(fault: Fault) -> None:
            node, began = self._cluster.member(role), time.time()
            await asyncio.to_thread(self._cluster.kill, node)
            await self.until_back(began)
            self._note(fault, node, began)
            await asyncio.sleep(max(0.0, began + fault.seconds - time.time()))
            self._cluster.start_node(node)

        return killed

    def _separate(self, cut: Callable[[str], None]) -> Action:
        async def separated(fault: Fault) -> None:
            node, began = self._cluster.member("leader"), time.time()
            (cut if self._network.can_cut else self._cluster.freeze)(node)
            await asyncio.sleep(1.0)  # until the proxy in front has noticed
            await self.until_back(began)
            self._note(fault, node, began)
            await asyncio.sleep(max(0.0, began + fault.seconds - time.time()))
            (self._network.heal if self._network.can_cut else self._cluster.resume)(node)

        return separated

    def _note(self, fault: Fault, what: str, began: float) -> None:
        self.record.log.append(
            f"{fault.kind} ({what}): written again after {time.time() - began:.1f} s"
        )

    async def _healthy(self) -> None:
        async def is_healthy() -> bool:
            return await asyncio.to_thread(self._cluster.is_healthy)

        await eventually_async(is_healthy, within_seconds=RECOVER_SECONDS, look_every_seconds=0.5)

    async def until_back(self, began: float) -> None:
        await eventually_async(self.answers, within_seconds=RECOVER_SECONDS, look_every_seconds=0.2)
        self.record.outages.append((began, time.time()))

    def close(self) -> None:
        self._cluster.close()
        self._network.close()
        super().close()
