"""A folder for an embedded server, and processes that use it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.eventually import eventually
from tests.support.server_users import ServerUser, as_ordinary_user, everything_ended, open_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def shared_folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
def data_dir(shared_folder: Path) -> Iterator[Path]:
    """A data folder whose server is down; tests share its cluster, since initdb is slow."""
    data_dir = shared_folder / "data"
    yield data_dir
    eventually(lambda: everything_ended(data_dir), within_seconds=30)


@pytest.fixture
def start_user() -> Iterator[Callable[..., ServerUser]]:
    users: list[ServerUser] = []

    def start(*args: Any, **options: Any) -> ServerUser:
        users.append(ServerUser(*args, **options))
        return users[-1]

    yield start
    for user in users:
        user.close()


@pytest.fixture(scope="session")
def ordinary_python() -> str:
    """An interpreter with our packages that an ordinary user can run; root's home may be closed."""
    candidates = [sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"]
    for python in candidates:
        probe = [python, "-c", "import regente.postgres.embedded"]
        with contextlib.suppress(OSError):
            if (
                subprocess.run(
                    probe, cwd="/", capture_output=True, check=False, **as_ordinary_user()
                ).returncode
                == 0
            ):
                return python
    pytest.skip(
        f"no Python that user nobody can run with our packages (tried {', '.join(candidates)})"
    )
