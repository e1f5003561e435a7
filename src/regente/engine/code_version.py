"""The version of a pipeline's code: the one that it was given, or that of its installed package."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from regente.engine.pipeline import Pipeline


def versions_of(pipelines: Iterable[Pipeline]) -> dict[str, str]:
    """By the pipelines' names; without those whose code is a plain file."""
    found = ((pipeline.name, _version_of(pipeline)) for pipeline in pipelines)
    return {name: known for name, known in found if known is not None}


def _version_of(pipeline: Pipeline) -> str | None:
    if pipeline.version is not None:
        return pipeline.version
    return package_version(pipeline.function.__module__.partition(".")[0])


@cache
def package_version(package: str) -> str | None:
    """The version of the distribution that installed this package."""
    try:
        return version(package)
    except PackageNotFoundError:
        distributions = _distributions().get(package, [])
        return version(distributions[0]) if distributions else None


@cache
def _distributions() -> dict[str, list[str]]:
    return {name: list(found) for name, found in packages_distributions().items()}
