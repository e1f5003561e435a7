"""Three PostgreSQL servers under Patroni, with etcd and HAProxy, whose address is a socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regente.postgres.binaries import server_environment
from tests.engine.faults.ha.network import HUB, Network
from tests.engine.faults.ha.programs import Programs
from tests.support.eventually import eventually

NODES = ("node1", "node2", "node3")
POSTGRES, PATRONI, ETCD, ETCD_PEER = 5432, 8008, 2379, 2380
TTL_SECONDS = 20.0  # Patroni allows no less
START_SECONDS = 120.0
DYNAMIC = {
    "ttl": int(TTL_SECONDS),
    "loop_wait": 2,
    "retry_timeout": 4,
    "synchronous_mode": True,  # what a client was told is stored is on two nodes
    "postgresql": {
        "use_pg_rewind": True,
        "use_slots": True,
        "parameters": {"max_connections": 150, "shared_buffers": "64MB", "wal_log_hints": "on"},
    },
}
HAPROXY = """
global
  maxconn 1000
defaults
  mode tcp
  timeout connect 2s
  timeout check 1s
  timeout client 1h
  timeout server 1h
frontend postgres
  bind unix@{sockets}/.s.PGSQL.5432 mode 777
  default_backend primary
backend primary
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""
SERVER = "  server {name} {host}:{postgres} check port {patroni}"
API = """
frontend api-{name}
  bind unix@{sockets}/{name} mode 777
  default_backend api-{name}
backend api-{name}
  server {name} {host}:{patroni}
"""


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    role: str
    state: str
    timeline: int


class Cluster:
    def __init__(self, folder: Path, programs: Programs, network: Network) -> None:
        self._folder = folder
        self._programs = programs
        self.network = network
        self._sockets = folder / "sockets"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"postgresql://regente@/postgres?host={self._sockets}&port={POSTGRES}"

    def start(self) -> None:
        """Returns when there are a primary, a synchronous standby and another one."""
        for name in ("sockets", "etcd", *NODES):
            place = self._folder / name
            place.mkdir(mode=0o755)
            self._programs.account.chown(place)
        self._start_etcd()
        self._start_haproxy()
        for node in NODES:
            self.start_node(node)
        eventually(self.is_healthy, within_seconds=START_SECONDS)

    def close(self) -> None:
        """Ends what was started here, and nothing else."""
        for node in NODES:
            self.resume(node)
        for name, process in reversed(self._processes.items()):
            process.send_signal(signal.SIGTERM if name in NODES else signal.SIGKILL)
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for node in NODES:
            self.kill(node)
        for process in self._processes.values():
            process.kill()
            process.wait()

    # The members.

    def members(self) -> list[Member]:
        """As the first node says that answers; none when no node does."""
        for node in NODES:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                found = json.loads(self._ask(node, "GET", "/cluster"))["members"]
                return [
                    Member(one["name"], one["role"], one["state"], one.get("timeline", 0))
                    for one in found
                ]
        return []

    def is_healthy(self) -> bool:
        members = self.members()
        roles = sorted(member.role for member in members)
        states = {member.state for member in members}
        return (
            roles == ["leader", "replica", "sync_standby"]
            and states <= {"running", "streaming"}
            and len({member.timeline for member in members}) == 1
        )

    def member(self, role: str) -> str:
        return next(member.name for member in self.members() if member.role == role)

    def switch_over(self, leader: str, candidate: str) -> str:
        return self._ask(
            leader, "POST", "/switchover", {"leader": leader, "candidate": candidate}
        ).decode()

    def _ask(self, node: str, method: str, path: str, body: Any = None) -> bytes:
        connection = _SocketConnection(str(self._sockets / node))
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body else None)
            answer = connection.getresponse()
            told = answer.read()
        if answer.status != 200:
            raise OSError(f"{method} {path} of {node}: {answer.status} {told!r}")
        return told

    # The nodes, as processes.

    def start_node(self, node: str) -> None:
        path = self._folder / f"{node}.json"
        path.write_text(json.dumps(self._config(node)))
        command = [str(self._programs.python), "-m", "patroni", str(path)]
        self._processes[node] = self._spawn(node, node, command)

    def kill(self, node: str) -> None:
        """The power of the node goes: Patroni and the server with all its processes."""
        process = self._processes.get(node)
        if process is not None:
            process.kill()
            process.wait()
        for pid in self._servers_of(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not [*self._servers_of(node)])

    def freeze(self, node: str) -> None:
        self._processes[node].send_signal(signal.SIGSTOP)
        for pid in self._servers_of(node):
            os.kill(pid, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        for pid in self._servers_of(node):
            os.kill(pid, signal.SIGCONT)
        if node in self._processes:
            self._processes[node].send_signal(signal.SIGCONT)

    def said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _servers_of(self, node: str) -> Iterator[int]:
        """All processes that work in the node's data folder: its server's, and no other's."""
        data = str(self._folder / node / "data")
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if os.readlink(entry / "cwd") == data and _is_alive(entry):
                        yield int(entry.name)

    def _start_etcd(self) -> None:
        client = f"http://{self._at(HUB, ETCD)}"
        peer = f"http://{self._at(HUB, ETCD_PEER)}"
        command = [
            self._programs.etcd,
            "--name=etcd",
            f"--data-dir={self._folder / 'etcd' / 'data'}",
        ]
        command += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        command += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        command += [f"--initial-cluster=etcd={peer}"]
        self._processes["etcd"] = self._spawn("etcd", HUB, command)

    def _start_haproxy(self) -> None:
        places = [
            {
                "name": node,
                "host": self.network.host(node),
                "postgres": self.network.port(node, POSTGRES),
                "patroni": self.network.port(node, PATRONI),
                "sockets": self._sockets,
            }
            for node in NODES
        ]
        servers = "\n".join(SERVER.format(**place) for place in places)
        path = self._folder / "haproxy.cfg"
        text = HAPROXY.format(sockets=self._sockets, servers=servers)
        path.write_text(text + "".join(API.format(**place) for place in places))
        command = [self._programs.haproxy, "-db", "-f", str(path)]
        self._processes["haproxy"] = self._spawn("haproxy", HUB, command)

    def _spawn(self, name: str, place: str, command: list[str]) -> subprocess.Popen[bytes]:
        account = self._programs.account
        switch = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
        prefix = [*self.network.inside(place), *([] if account.is_self else switch)]
        with open(self._folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [*prefix, *command],
                cwd="/",
                env=server_environment() | {"HOME": str(self._folder / "none")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the campaign, which ends them in order
            )

    def _at(self, place: str, usual: int) -> str:
        return f"{self.network.host(place)}:{self.network.port(place, usual)}"

    def _config(self, node: str) -> dict[str, Any]:
        folder = self._folder / node
        postgres, patroni = self._at(node, POSTGRES), self._at(node, PATRONI)
        any_address = "0.0.0.0/0 trust"
        return {
            "scope": "regente",
            "name": node,
            "restapi": {"listen": patroni, "connect_address": patroni},
            "etcd3": {"host": self._at(HUB, ETCD)},
            "bootstrap": {
                "dcs": DYNAMIC,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": postgres,
                "connect_address": postgres,
                "data_dir": str(folder / "data"),
                "bin_dir": str(self._programs.postgres),
                "pgpass": str(folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": "regente"},
                    "replication": {"username": "replicator"},
                },
                "parameters": {"unix_socket_directories": str(folder)},
                "pg_hba": [
                    "local all all trust",
                    f"host all all {any_address}",
                    f"host replication all {any_address}",
                ],
            },
        }


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("patroni", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _is_alive(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
