"""The connection of a named `task.transaction`: it sends statements and gives no results.

A `with` cannot skip its block, so a replay runs it again, on a connection that sends nothing. What
the block would read then, rows, ids, counts and errors, could only be invented: so it reads nothing
at its first run either. `task.transact` gives results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from regente.engine.database import TaskConnection
from regente.engine.errors import InvalidInput


class EffectsConnection:
    """Sends statements. On a replay, without a connection, it does nothing."""

    __slots__ = ("_connection", "_failure", "_over")

    def __init__(self, connection: TaskConnection | None) -> None:
        self._connection = connection
        self._failure: BaseException | None = None
        self._over = False

    async def execute(
        self, query: Any, params: Any = None, *, prepare: bool | None = None
    ) -> NoResult:
        """Run a statement, with `%s`, `%(name)s` or `$1`."""
        connection = self._usable()
        if connection is not None:
            try:
                await connection.execute(query, params, prepare=prepare)
            except BaseException as error:
                self._failure = error
                raise
        return NO_RESULT

    async def executemany(self, query: Any, params: Iterable[Any]) -> NoResult:
        """Run a statement once for each of the parameters."""
        connection = self._usable()
        if connection is not None:
            try:
                await connection.execute_many(query, params)
            except BaseException as error:
                self._failure = error
                raise
        return NO_RESULT

    def end(self) -> None:
        """The block is over. A statement that failed in it fails it, even when the block caught the
        error: no replay would meet that."""
        self._over = True
        if self._failure is not None:
            raise self._failure

    def _usable(self) -> TaskConnection | None:
        if self._over:
            raise InvalidInput("the transaction is over", code="TRANSACTION_OVER")
        return self._connection

    if not TYPE_CHECKING:  # type checkers know what it has not

        def __getattr__(self, name: str) -> NoReturn:
            raise _refused(self, f"connection.{name}", name)


class NoResult:
    """The result of `execute` on a connection for effects; every use of it is refused."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise _refused(self, f"its {name}", name)

        def __bool__(self) -> NoReturn:
            raise without_results("whether it has one")

        def __iter__(self, *_: Any) -> NoReturn:
            raise without_results("its rows")

        __aiter__ = __getitem__ = __len__ = __aenter__ = __iter__


NO_RESULT = NoResult()


def refuse_effects(connection: object, what: str) -> None:
    """Refuse a connection for effects where results are needed, before anything is sent."""
    if isinstance(connection, EffectsConnection):
        raise without_results(what)


def without_results(what: str) -> InvalidInput:
    return InvalidInput(
        f"a named task.transaction gives no results ({what}): a later attempt, which does not "
        "repeat it, would have to invent them. Use `result = await task.transact(name, function, "
        "…)`, whose result is recorded",
        code="NO_RESULTS",
    )


def _refused(owner: object, what: str, name: str) -> Exception:
    if name.startswith("__"):  # asked by Python itself
        return AttributeError(f"{type(owner).__name__} has no {name}")
    return without_results(what)
