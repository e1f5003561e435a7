"""Installs every peer in its own environment under `benchmarks/.envs`; skips failing ones."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.console import CannotBuild, npm_here

from benchmarks.catalogue import Peer, Runtime

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENTS = HERE / ".envs"
INSTALL_SECONDS = 900.0


class CannotInstallError(RuntimeError):
    """The peer is left out of this run, for this reason."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The command of a peer's program, and its version."""

    peer: Peer
    program: tuple[str, ...]
    version: str
    modules: Path | None = None

    def variables(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PG", "REGENTE_"))
        }
        modules = {"BENCH_MODULES": str(self.modules)} if self.modules else {}
        return inherited | modules | {"PYTHONDONTWRITEBYTECODE": "1"}


def prepare(peer: Peer) -> Environment:
    """The peer's environment, installed on first use."""
    match peer.runtime:
        case Runtime.OURS:
            return Environment(
                peer,
                (sys.executable, "-m", peer.module),
                _python_version(Path(sys.executable), "regente"),
            )
        case Runtime.PYTHON:
            return _python(peer)
        case Runtime.NODE:
            return _node(peer)


def _python(peer: Peer) -> Environment:
    directory = ENVIRONMENTS / peer.name
    python = directory / "bin" / "python"
    if not (directory / "installed").exists():
        uv = _find_uv()
        _install([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(directory)])
        _install([uv, "pip", "install", "--quiet", "--python", str(python), *peer.packages])
        (directory / "installed").touch()
    return Environment(
        peer,
        (str(python), "-m", peer.module),
        _python_version(python, peer.packages[0].split("[")[0]),
    )


def _node(peer: Peer) -> Environment:
    directory = ENVIRONMENTS / peer.name
    package = directory / "node_modules" / peer.packages[0] / "package.json"
    try:
        npm, variables = npm_here()
    except CannotBuild as error:
        raise CannotInstallError(str(error)) from error
    if not package.exists():
        directory.mkdir(parents=True, exist_ok=True)
        options = ["--loglevel=error", "--no-audit", "--no-fund", "--prefix", str(directory)]
        _install([*npm, "install", *options, *peer.packages], variables)
    version = str(json.loads(package.read_text())["version"])
    node = shutil.which("node", path=variables["PATH"]) or "node"
    return Environment(peer, (node, str(HERE / "peers" / peer.module)), version, modules=directory)


def _find_uv() -> str:
    """The uv that `make install` uses; installed beside our virtual environment if need be."""
    try:
        return _output_of(["sh", str(ROOT / "scripts" / "uv.sh"), sys.prefix])
    except subprocess.CalledProcessError as error:
        raise CannotInstallError(
            f"there is no uv, and pip cannot install it (try: pip install uv): {_end_of(error)}"
        ) from error


def _python_version(python: Path, package: str) -> str:
    code = f"import importlib.metadata as metadata; print(metadata.version({package!r}))"
    return _output_of([str(python), "-c", code])


def _output_of(command: list[str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _install(command: list[str], variables: dict[str, str] | None = None) -> None:
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            env=variables,
        )
    except subprocess.CalledProcessError as error:
        raise CannotInstallError(f"`{shlex.join(command)}` failed: {_end_of(error)}") from error
    except subprocess.TimeoutExpired as error:
        raise CannotInstallError(
            f"`{shlex.join(command)}` took longer than {INSTALL_SECONDS:.0f} s"
        ) from error


def _end_of(error: subprocess.CalledProcessError) -> str:
    return str(error.stderr).strip()[-400:]
