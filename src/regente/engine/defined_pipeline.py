"""What `@pipeline` makes of a function: it is called as before, and enqueued with its own types."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol

from typing_extensions import TypedDict, TypeVar, Unpack

from regente.engine.uniqueness import OnConflict, Unique

if TYPE_CHECKING:
    from regente.engine.task import Task

ArgsT = TypeVar("ArgsT", default=Any)
ResultT = TypeVar("ResultT", default=Any)
AnswerT_co = TypeVar("AnswerT_co", covariant=True)
AnswersT_co = TypeVar("AnswersT_co", covariant=True)


class Options(TypedDict, total=False):
    """Of tasks; `Client.enqueue` and `Client.enqueue_many` say what they mean."""

    priority: int
    run_at: datetime | None
    batch: int | str | None
    max_attempts: int | None
    draft: bool
    lane: str | None
    connection: Any


class OneOptions(Options, total=False):
    key: str | None
    unique: Unique
    on_conflict: OnConflict


class ManyOptions(Options, total=False):
    keys: Sequence[str | None] | None


class Enqueues(Protocol[AnswerT_co]):
    """An asynchronous or a blocking client."""

    def enqueue(
        self, pipeline: str, args: Any = None, **options: Unpack[OneOptions]
    ) -> AnswerT_co: ...


class EnqueuesMany(Protocol[AnswersT_co]):
    def enqueue_many(
        self, pipeline: str, args: Iterable[Any], **options: Unpack[ManyOptions]
    ) -> AnswersT_co: ...


class DefinedPipeline(Generic[ArgsT, ResultT]):
    def __init__(self, name: str, function: Callable[[Task[ArgsT]], Awaitable[ResultT]]) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self.function = function

    def __call__(self, task: Task[ArgsT]) -> Awaitable[ResultT]:
        return self.function(task)

    def __repr__(self) -> str:
        return f"<pipeline {self.name}>"

    def enqueue(
        self, app: Enqueues[AnswerT_co], args: ArgsT, **options: Unpack[OneOptions]
    ) -> AnswerT_co:
        """As `app.enqueue`, with arguments of the pipeline's type."""
        return app.enqueue(self.name, args, **options)

    def enqueue_many(
        self, app: EnqueuesMany[AnswersT_co], args: Iterable[ArgsT], **options: Unpack[ManyOptions]
    ) -> AnswersT_co:
        """As `app.enqueue_many`, with arguments of the pipeline's type."""
        return app.enqueue_many(self.name, args, **options)
