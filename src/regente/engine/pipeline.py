"""Pipelines: the Python function and the limits of one kind of task, and the registry where runners
and clients find them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from regente.engine.defined_pipeline import ArgsT, DefinedPipeline, ResultT
from regente.engine.errors import InvalidInput, UnknownPipeline
from regente.engine.lanes import LaneLimits, checked_lane
from regente.engine.retry import Retry

if TYPE_CHECKING:
    from regente.engine.task import Task

PipelineFunction = Callable[[Any], Awaitable[Any]]
LaneFunction = Callable[[Any], str | None]
MAX_SECONDS = 100 * 365 * 86_400.0  # PostgreSQL's intervals reach further
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_VERSION = re.compile(r"[!-~]{1,100}")


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    function: PipelineFunction
    args_type: Any = dict
    retry: Retry = field(default_factory=Retry)
    stall_after_seconds: float | None = 600.0
    timeout_seconds: float | None = None
    concurrency: int | None = None
    expire_after_seconds: float | None = None
    endless: bool = False
    grace_seconds: float = 2.0
    keep: bool = False
    lane: LaneFunction | None = None
    lane_limits: LaneLimits | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        for limit in ("stall_after", "timeout", "expire_after"):
            seconds = getattr(self, f"{limit}_seconds")
            if seconds is not None and not 0 < seconds <= MAX_SECONDS:
                raise ValueError(
                    f"{limit} of {self.name!r} is a time above 0 and up to 100 years, or None, "
                    f"not {seconds!r} seconds"
                )
        if not 0 <= self.grace_seconds <= MAX_SECONDS:
            raise ValueError(
                f"grace of {self.name!r} is a time of 0 seconds or more, not {self.grace_seconds!r}"
            )
        if self.concurrency is not None and not is_count(self.concurrency):
            raise ValueError(
                f"concurrency of {self.name!r} is a whole number from 1, or None, "
                f"not {self.concurrency!r}"
            )
        if not isinstance(self.retry, Retry):
            raise ValueError(f"retry of {self.name!r} is a Retry(…), not {self.retry!r}")
        if not isinstance(self.lane_limits, LaneLimits | None):
            raise ValueError(
                f"lane_limits of {self.name!r} is a LaneLimits(…) or None, not {self.lane_limits!r}"
            )
        if self.version is not None and not _VERSION.fullmatch(self.version):
            raise ValueError(
                f"version of {self.name!r} is a text of 1 to 100 visible characters, "
                f"not {self.version!r}"
            )

    def lane_of(self, args: Any) -> str | None:
        """The lane of a task with these arguments, which are of the pipeline's type."""
        if self.lane is None:
            return None
        try:
            return checked_lane(self.lane(args))
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(f"the lane function of {self.name} failed: {error!r}") from error


class Registry:
    """The pipelines that this process knows, by name."""

    def __init__(self) -> None:
        self._pipelines: dict[str, Pipeline] = {}
        self.declared: frozenset[str] = frozenset()  # run by other processes, without code here

    def add(self, pipeline: Pipeline) -> None:
        known = self._pipelines.get(pipeline.name)
        if known is not None and _origin(known.function) != _origin(pipeline.function):
            raise ValueError(
                f"two pipelines are called {pipeline.name!r}: {known.function} and "
                f"{pipeline.function}"
            )
        self._pipelines[pipeline.name] = pipeline

    def declare(self, *names: str) -> None:
        """Allow to queue tasks of these pipelines without their code: another process runs them."""
        self.declared |= {*names}

    def pipeline(
        self,
        name: str,
        *,
        args: Any = dict,
        retry: Retry | None = None,
        stall_after: float | timedelta | None = 600.0,
        timeout: float | timedelta | None = None,
        concurrency: int | None = None,
        expire_after: float | timedelta | None = None,
        endless: bool = False,
        grace: float | timedelta = 2.0,
        keep: bool = False,
        lane: LaneFunction | None = None,
        lane_limits: LaneLimits | None = None,
        version: str | None = None,
    ) -> Callable[[Callable[[Task[ArgsT]], Awaitable[ResultT]]], DefinedPipeline[ArgsT, ResultT]]:
        """Make an `async` function the pipeline called `name`, to be enqueued by its `enqueue`.

        `args` is the type that a task's arguments must have (a pydantic model, dataclass or
        TypedDict; `dict` takes any JSON object). `stall_after` is how long a task may show no
        progress before it is taken back, `timeout` how long one attempt may last, `expire_after`
        how long after its first start a task fails, also with tries left; all in seconds or
        as a timedelta, None for no limit. `concurrency` limits how many run at once in one runner.

        `endless` is for tasks that wait for other systems for hours: a runner that is told to stop
        hands them back at once, and the crash of a runner does not count against them. `grace` is
        how long a task may take to clean up when it is stopped (`task.stopping` says why). With
        `keep` finished tasks are deleted only when a retention time was set.

        `lane` gets the arguments and returns the task's lane, or None: what shares a limit with
        other tasks, such as a host. `lane_limits` are the limits of such a lane.

        `version` says which code it is, by default the version of the installed package that the
        function is in. It is shown with the runners that have it and the attempts that ran it.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot name a pipeline: letters, digits, '_', '-' and '.', at most 100"
            )

        def register(
            function: Callable[[Task[ArgsT]], Awaitable[ResultT]],
        ) -> DefinedPipeline[ArgsT, ResultT]:
            if isinstance(function, DefinedPipeline):
                function = function.function
            if not _is_async(function):
                raise TypeError(f"the pipeline {name!r} must be an `async def` function")
            limits = (
                in_seconds(stall_after),
                in_seconds(timeout),
                concurrency,
                in_seconds(expire_after),
            )
            grace_seconds = in_seconds(grace) or 0.0
            self.add(
                Pipeline(
                    name,
                    function,
                    args,
                    Retry() if retry is None else retry,
                    *limits,
                    endless,
                    grace_seconds,
                    keep,
                    lane,
                    lane_limits,
                    version,
                )
            )
            return DefinedPipeline(name, function)

        return register

    def get(self, name: str) -> Pipeline | None:
        return self._pipelines.get(name)

    def select(self, names: list[str] | None) -> list[Pipeline]:
        """The named pipelines, or all of them."""
        if names is None:
            return list(self._pipelines.values())
        missing = [name for name in names if name not in self._pipelines]
        if missing:
            known = ", ".join(sorted(self._pipelines)) or "none"
            raise UnknownPipeline(
                f"no pipeline is called {', '.join(missing)}; known here: {known}"
            )
        return [self._pipelines[name] for name in names]

    @property
    def names(self) -> list[str]:
        return sorted(self._pipelines)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def in_seconds(value: float | timedelta | None) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value


def _origin(function: PipelineFunction) -> tuple[str, str]:
    return function.__module__, function.__qualname__


registry = Registry()
pipeline = registry.pipeline
