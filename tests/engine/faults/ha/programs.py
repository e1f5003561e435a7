"""The programs of a cluster that fails over, installed on first use: Patroni from PyPI into an
environment of its own, etcd and HAProxy from Debian."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts import debian

from regente.postgres.binaries import Account, choose_account, programs_for
from tests.support.postgres_servers import cache_folder

ROOT = Path(__file__).parents[4]
PATRONI = "patroni[etcd3]==4.1.5"
PURPOSE = "for a cluster that fails over"
INSTALL_SECONDS = 300


class CannotInstallError(RuntimeError):
    """A program is neither here nor can it be installed."""


@dataclass(frozen=True, slots=True)
class Programs:
    account: Account
    """Runs Patroni and PostgreSQL, which refuses root."""
    python: Path
    """The interpreter that has Patroni."""
    etcd: str
    haproxy: str
    postgres: Path
    """The folder of PostgreSQL's programs."""


def find_programs(folder: Path) -> Programs:
    """`folder` takes a copy of PostgreSQL when the account cannot reach ours."""
    account = choose_account(folder / "none")
    return Programs(
        account,
        _python_with_patroni(account),
        _debian("etcd", "etcd-server"),
        _debian("haproxy", "haproxy"),
        programs_for(account, folder),
    )


def _debian(program: str, package: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    if not shutil.which(program, path=path):
        debian.install(package, PURPOSE)
    found = shutil.which(program, path=path)
    if found is None:
        raise CannotInstallError(
            f"{program} is not installed, and only root on Debian can install it here"
        )
    return found


def _python_with_patroni(account: Account) -> Path:
    folder = cache_folder("patroni")
    python = folder / "bin" / "python"
    if not (folder / "installed").exists() or not account.can_run(python):
        uv = _run(["sh", str(ROOT / "scripts" / "uv.sh"), sys.prefix])
        base = _interpreter_of(account)
        _run([uv, "venv", "--quiet", "--clear", "--python", base, str(folder)])
        _run([uv, "pip", "install", "--quiet", "--python", str(python), PATRONI, "psycopg[binary]"])
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        (folder / "installed").touch()
    return python


def _interpreter_of(account: Account) -> str:
    """Root's own interpreter may lie in its closed home."""
    for candidate in (os.path.realpath(sys.executable), shutil.which("python3", path=os.defpath)):
        if candidate and account.can_run(Path(candidate)):
            return candidate
    raise CannotInstallError(f"the account with uid {account.uid} can run no Python")


def _run(command: list[str]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode == 0:
            return done.stdout.strip()
        raise CannotInstallError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-400:]}")
    raise CannotInstallError(f"`{' '.join(command)}` took longer than {INSTALL_SECONDS} s")
