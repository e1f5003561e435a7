"""A folder for an embedded server, and processes that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.eventually import eventually
from tests.support.ordinary_user import OrdinaryUser, find_ordinary_user
from tests.support.server_users import ServerUser, everything_ended, open_folder

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
    """A data folder whose server is stopped; tests share its cluster, since initdb is slow."""
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
def ordinary_user() -> Iterator[OrdinaryUser]:
    with open_folder() as folder:
        user = find_ordinary_user(folder)
        if user is None:
            pytest.skip("no Python that user nobody can run with our packages")
        yield user
