"""Installs every peer in its own environment under `benchmarks/.envs`; skips failing ones."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.catalogue import Peer, Runtime

HERE = Path(__file__).resolve().parent
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
        _require("uv")
        _install(
            ["uv", "venv", "--quiet", "--clear", "--python", _python_release(), str(directory)]
        )
        _install(["uv", "pip", "install", "--quiet", "--python", str(python), *peer.packages])
        (directory / "installed").touch()
    return Environment(
        peer,
        (str(python), "-m", peer.module),
        _python_version(python, peer.packages[0].split("[")[0]),
    )


def _node(peer: Peer) -> Environment:
    directory = ENVIRONMENTS / peer.name
    package = directory / "node_modules" / peer.packages[0] / "package.json"
    if not package.exists():
        _require("node")
        _require("npm")
        directory.mkdir(parents=True, exist_ok=True)
        _install(
            [
                "npm",
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--prefix",
                str(directory),
                *peer.packages,
            ]
        )
    version = str(json.loads(package.read_text())["version"])
    return Environment(
        peer, ("node", str(HERE / "peers" / peer.module)), version, modules=directory
    )


def _python_release() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _python_version(python: Path, package: str) -> str:
    code = f"import importlib.metadata as metadata; print(metadata.version({package!r}))"
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def _require(tool: str) -> None:
    if shutil.which(tool) is None:
        raise CannotInstallError(f"{tool} is not installed")


def _install(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        raise CannotInstallError(f"{command[0]} failed: {error.stderr.strip()[-400:]}") from error
    except subprocess.TimeoutExpired as error:
        raise CannotInstallError(
            f"{command[0]} took longer than {INSTALL_SECONDS:.0f} s"
        ) from error
