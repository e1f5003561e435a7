"""The app of this process, for pipelines of tests that enqueue."""

from __future__ import annotations

from regente import Regente

_apps: list[Regente] = []


def set_application(app: Regente) -> None:
    _apps[:] = [app]


def application() -> Regente:
    return _apps[0]
