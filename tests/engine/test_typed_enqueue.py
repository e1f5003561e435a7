"""`prices.enqueue(app, PriceArgs(…))`: what `@pipeline` returns enqueues tasks of its own type."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import BaseModel

from regente import Enqueued, InvalidArgs, Regente
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, task_row


class PriceArgs(BaseModel):
    product: str
    amount: int = 1


async def test_a_pipeline_enqueues_with_its_own_types(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    """I1: the same task as by the string form; a type checker sees the arguments."""

    @registry.pipeline("prices", args=PriceArgs, lane=lambda args: args.product)
    async def prices(task: Task[PriceArgs]) -> str:
        return f"{task.args.amount} {task.args.product}"

    first: Enqueued = await prices.enqueue(app, PriceArgs(product="chair"), key="k", priority=2)
    again = await prices.enqueue(app, PriceArgs(product="table"), key="k")
    row = task_row(sql, first.id)
    assert (first.created, again.created, again == first) == (True, False, True)
    assert (row["args"], row["priority"]) == ({"product": "chair", "amount": 1}, 2)
    assert (row["pipeline"], row["lane"]) == ("prices", "chair")
    many = await prices.enqueue_many(
        app, [PriceArgs(product="a"), PriceArgs(product="b")], keys=["a", "b"], batch="b"
    )
    assert column(sql, "SELECT lane FROM regente.tasks WHERE id = ANY (%s)", many) == ["a", "b"]
    await app.run(until_idle=True)
    assert task_row(sql, first)["result"] == "1 chair"


async def test_arguments_of_another_type_are_refused(app: Regente, registry: Registry) -> None:
    @registry.pipeline("prices", args=PriceArgs)
    async def prices(task: Task[PriceArgs]) -> None: ...

    with pytest.raises(InvalidArgs, match="product: Field required"):
        await prices.enqueue(app, {"amount": 1})  # type: ignore[arg-type]


async def test_it_is_called_as_the_function_that_it_was(registry: Registry) -> None:
    """With its name, its documentation and its module."""

    @registry.pipeline("p")
    async def double(task: Any) -> int:
        """Twice as much."""
        return 2 * int(task)

    assert await double(21) == 42  # type: ignore[arg-type]
    assert (double.__name__, inspect.getdoc(double)) == ("double", "Twice as much.")  # type: ignore[attr-defined]
    assert double.__module__ == __name__
    assert repr(double) == "<pipeline p>"


async def test_one_function_may_be_several_pipelines(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    @registry.pipeline("one")
    @registry.pipeline("two")
    async def work(task: Task) -> str:
        return task.pipeline

    class Shop:
        async def bound(self, task: Task) -> str:
            return task.pipeline

    three = registry.pipeline("three")(Shop().bound)
    assert [await work.enqueue(app, {}), await three.enqueue(app, {})] == [1, 2]
    await app.enqueue("two")
    await app.run(until_idle=True)
    assert column(sql, "SELECT result FROM regente.tasks ORDER BY id") == ["one", "three", "two"]
