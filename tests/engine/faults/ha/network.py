"""Where the parts of a cluster run: each in a network namespace of its own when root runs it, else
all on the loopback, where there is nothing to cut."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Protocol

HUB = "hub"
NOWHERE = "02:00:00:00:00:99"  # a hardware address that nothing has


class Network(Protocol):
    can_cut: bool

    def host(self, place: str) -> str: ...

    def port(self, place: str, usual: int) -> int: ...

    def inside(self, place: str) -> list[str]:
        """What comes before a command that is to run there."""
        ...

    def cut(self, place: str) -> None:
        """Nothing passes between this place and all others."""
        ...

    def mute(self, place: str) -> None:
        """What this place sends is lost; it still hears the others."""
        ...

    def heal(self, place: str) -> None: ...

    def close(self) -> None: ...


class Loopback:
    can_cut = False

    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], int] = {}

    def host(self, place: str) -> str:
        return "127.0.0.1"

    def port(self, place: str, usual: int) -> int:
        if (place, usual) not in self._ports:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._ports[place, usual] = probe.getsockname()[1]
        return self._ports[place, usual]

    def inside(self, place: str) -> list[str]:
        return []

    def cut(self, place: str) -> None:
        raise NotImplementedError

    mute = heal = cut

    def close(self) -> None:
        """Nothing was made."""


class Namespaces:
    """A bridge in the hub's namespace, and a cable to that of each node. Nothing of the machine's
    own network is touched."""

    can_cut = True

    def __init__(self, places: tuple[str, ...]) -> None:
        remove_leftovers()
        self._hosts = {HUB: "10.0.0.1"}
        self._hosts |= {place: f"10.0.0.{11 + number}" for number, place in enumerate(places)}
        for place in self._hosts:
            _ip("netns", "add", _name(place))
            self._in(place, "link", "set", "lo", "up")
        self._in(HUB, "link", "add", "br0", "type", "bridge")
        self._in(HUB, "addr", "add", f"{self._hosts[HUB]}/24", "dev", "br0")
        self._in(HUB, "link", "set", "br0", "up")
        for place in places:
            cable = ["link", "add", place, "type", "veth", "peer", "name", "eth0"]
            self._in(HUB, *cable, "netns", _name(place))
            self._in(HUB, "link", "set", place, "master", "br0", "up")
            self._in(place, "addr", "add", f"{self._hosts[place]}/24", "dev", "eth0")
            self._in(place, "link", "set", "eth0", "up")

    def host(self, place: str) -> str:
        return self._hosts[place]

    def port(self, place: str, usual: int) -> int:
        return usual

    def inside(self, place: str) -> list[str]:
        return ["ip", "netns", "exec", _name(place)]

    def cut(self, place: str) -> None:
        self._in(HUB, "link", "set", place, "down")

    def mute(self, place: str) -> None:
        for other in self._others(place):
            wrong = ["lladdr", NOWHERE, "nud", "permanent", "dev", "eth0"]
            self._in(place, "neigh", "replace", other, *wrong)

    def heal(self, place: str) -> None:
        self._in(HUB, "link", "set", place, "up")
        for other in self._others(place):
            self._in(place, "neigh", "replace", other, "nud", "failed", "dev", "eth0")

    def close(self) -> None:
        for place in self._hosts:
            _ip("netns", "del", _name(place))

    def _others(self, place: str) -> list[str]:
        return [host for other, host in self._hosts.items() if other != place]

    def _in(self, place: str, *words: str) -> None:
        _ip("-n", _name(place), *words)


def new_network(places: tuple[str, ...]) -> Network:
    if os.geteuid() == 0 and shutil.which("ip"):
        try:
            return Namespaces(places)
        except subprocess.CalledProcessError:  # in a container without the right to make them
            remove_leftovers(os.getpid())
    return Loopback()


def remove_leftovers(of: int | None = None) -> None:
    """Removes the namespaces of a process that was killed before it could, or of this one."""
    for name in sorted(path.name for path in Path("/run/netns").glob("regente-ha-*")):
        maker = int(re.fullmatch(r"regente-ha-(\d+)-\w+", name)[1])  # type: ignore[index]
        if maker == of or not Path(f"/proc/{maker}").exists():
            _ip("netns", "del", name)


def _name(place: str) -> str:
    return f"regente-ha-{os.getpid()}-{place}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)
