"""`SELECT regente.enqueue(…)`: tasks from SQL, with the client's checks, events and hints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import psycopg
import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from regente import LaneLimits, Regente
from regente.engine.codec import json_schema
from regente.engine.pipeline import Registry
from regente.engine.registration import register_pipelines
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, events_of, one, running, status_is, task_row, until

LATER = datetime(2040, 1, 1, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]


class Node(BaseModel):
    value: int
    next: Node | None = None


class Offer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    product: str = Field(min_length=1, max_length=20)
    amount: float = Field(default=1, gt=0, lt=1000)
    pages: list[Annotated[int, Field(multiple_of=1)]] = Field(default=[], max_length=3)
    size: tuple[int, str] | None = None
    colour: Colour | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    chain: Node | None = None
    labels: dict[str, int] = {}
    on: date | None = None
    price: Decimal | None = None


@dataclass
class Page:
    url: str
    number: int


class Place(TypedDict):
    town: str


@pytest.fixture
async def served(app: Regente, registry: Registry) -> None:
    """Pipelines as a runner registers them."""

    async def run(task: Task[Any]) -> None:
        return None

    for name, kind in (("any", dict), ("offer", Offer), ("page", Page), ("place", Place)):
        registry.pipeline(name, args=kind)(run)
    registry.pipeline("laned", lane=lambda args: args["host"])(run)
    await register_pipelines(app.database.fetch, registry.select(None))


Enqueue = Callable[..., int]


@pytest.fixture
def enqueue(sql: Sql, served: None) -> Enqueue:
    def call(pipeline: str, args: Any = None, **options: Any) -> int:
        names = "".join(f', "{name}" => %({name})s' for name in options)
        params = {"pipeline": pipeline, "args": json.dumps(args or {}), **options}
        statement = f"SELECT regente.enqueue(%(pipeline)s, %(args)s{names}) AS id"
        row = sql.execute(statement, params).fetchone()
        assert row is not None
        return int(row["id"])

    return call


def refused(sql: Sql, enqueue: Enqueue, *args: Any, **options: Any) -> str:
    """The message of the error; nothing was stored."""
    with pytest.raises(psycopg.Error) as error:
        enqueue(*args, **options)
    assert error.value.sqlstate == "RG002"
    for table in ("tasks", "events", "batches"):
        assert column(sql, f"SELECT count(*) FROM regente.{table}") == [0]
    return str(error.value)


async def test_it_stores_what_the_client_stores(app: Regente, sql: Sql, enqueue: Enqueue) -> None:
    """I1, I6: in every column, with every option, and with the same events."""
    options = {"priority": -2, "run_at": LATER, "max_attempts": 4}
    plain = [await app.enqueue("any", {"n": 7}), enqueue("any", {"n": 7})]
    full = [
        await app.enqueue("any", {"n": 7}, key="a", batch="b", lane="l", **options),  # type: ignore[arg-type]
        enqueue("any", {"n": 7}, key="b", batch="b", lane="l", **options),
    ]
    drafts = [await app.enqueue("any", {}, draft=True), enqueue("any", {}, draft=True)]
    hidden = ("id", "key", "created_at", "queued_at", "run_at")
    for client, database in (plain, full, drafts):
        first, second = (
            {name: value for name, value in task_row(sql, one).items() if name not in hidden}
            for one in (client, database)
        )
        assert first == second
        assert events_of(sql, client) == events_of(sql, database)
    assert [task_row(sql, one)["lane_run_at"] for one in full] == [LATER] * 2
    batch = await app.batch("b")
    assert (batch.total, batch.queued, batch.status) == (2, 2, "pending")


def test_the_id_is_a_number_and_more_is_told_on_demand(sql: Sql, enqueue: Enqueue) -> None:
    assert enqueue("any", key="k") == 1
    again = one(sql, "SELECT * FROM regente.enqueued('any', key => 'k')")
    assert again == {"id": 1, "created": False}


def test_it_commits_with_the_callers_rows_or_not_at_all(
    sql: Sql, holder: Sql, enqueue: Enqueue
) -> None:
    """I1: by a trigger, as another program's statement would run it."""
    sql.execute("CREATE TABLE public.orders (id bigint PRIMARY KEY, product text)")
    sql.execute(
        """
        CREATE FUNCTION public.price_order() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM regente.enqueue('offer', jsonb_build_object('product', NEW.product),
                                  key => 'order ' || NEW.id);
          RETURN NEW;
        END $$"""
    )
    sql.execute(
        "CREATE TRIGGER priced AFTER INSERT ON public.orders FOR EACH ROW"
        " EXECUTE FUNCTION public.price_order()"
    )
    holder.execute("INSERT INTO public.orders VALUES (1, 'chair')")
    holder.rollback()
    assert column(sql, "SELECT count(*) FROM regente.tasks") == [0]
    with pytest.raises(psycopg.Error, match="product: longer than 20"):
        sql.execute("INSERT INTO public.orders VALUES (2, repeat('x', 21))")
    assert column(sql, "SELECT count(*) FROM public.orders") == [0]
    sql.execute("INSERT INTO public.orders VALUES (3, 'chair'), (4, 'table')")
    assert column(sql, "SELECT key FROM regente.tasks ORDER BY id") == ["order 3", "order 4"]


async def test_a_runner_hears_of_it_after_the_commit(
    app: Regente, sql: Sql, holder: Sql, served: None, no_polls: None
) -> None:
    """No runner polls here."""
    async with running(app, ["any"]):
        await until(lambda: column(sql, "SELECT count(*) FROM regente.runners") == [1])
        row = one(holder, "SELECT regente.enqueue('any') AS id")
        holder.commit()
        await status_is(app, row["id"], "completed")


async def test_a_runner_hears_of_it_in_a_lane(
    app: Regente, sql: Sql, holder: Sql, served: None, no_polls: None
) -> None:
    """The lane is opened by a runner: the caller's transaction locks none."""
    async with running(app, ["laned"]):
        await until(lambda: column(sql, "SELECT count(*) FROM regente.runners") == [1])
        for _ in range(2):  # a new lane, and one that is known
            statement = "SELECT regente.enqueue('laned', '{\"host\": \"a\"}', lane => 'a b') AS id"
            row = one(holder, statement)
            locked = "SELECT count(*) FROM pg_locks WHERE pid = %s AND relation = %s::regclass"
            for table in ("regente.lanes", "regente.lane_queues"):
                assert column(sql, locked, holder.info.backend_pid, table) == [0]
            holder.commit()
            await status_is(app, row["id"], "completed")
    assert column(sql, "SELECT name FROM regente.lanes") == ["a b"]


def test_a_hint_can_be_left_out(sql: Sql, database_url: str, enqueue: Enqueue) -> None:
    """For transactions that are prepared, which may not notify."""
    with psycopg.connect(database_url, autocommit=True) as listening:
        listening.execute("LISTEN regente_queued")
        enqueue("any", hint=False)
        enqueue("any", draft=True)
        enqueue("any", priority=4)
        (heard,) = listening.notifies(timeout=30, stop_after=1)
        assert heard.payload.startswith("any 4 0 ")


def test_a_pipeline_that_no_runner_served_is_unknown(sql: Sql, enqueue: Enqueue) -> None:
    assert "no pipeline is called 'offers'" in refused(sql, enqueue, "offers")


def test_a_lane_is_given_where_the_pipelines_code_would_tell_it(sql: Sql, enqueue: Enqueue) -> None:
    """A task without its lane would pass by the lane's limits; an empty text says so on purpose."""
    args = {"host": "a"}
    assert "give lane =>" in refused(sql, enqueue, "laned", args)
    assert task_row(sql, enqueue("laned", args, lane="a"))["lane"] == "a"
    assert task_row(sql, enqueue("laned", args, lane=""))["lane"] is None
    assert task_row(sql, enqueue("any", args, lane="a"))["lane"] == "a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": ""}, "a key has 1 to 500"),
        ({"key": "k" * 501}, "a key has 1 to 500"),
        ({"priority": 32768}, "priority is a whole number"),
        ({"priority": -32769}, "priority is a whole number"),
        ({"max_attempts": 0}, "max_attempts is 1 to 1000"),
        ({"max_attempts": 1001}, "max_attempts is 1 to 1000"),
        ({"run_at": "infinity"}, "run_at is a time"),
        ({"run_at": "-infinity"}, "run_at is a time"),
        ({"run_at": "20000-01-01"}, "run_at is a time"),
        ({"batch": ""}, "a batch's name"),
        ({"batch": "b" * 201}, "a batch's name"),
        ({"lane": "l" * 201}, "a lane's name"),
        ({"key": "k", "unique": "never"}, "unique is ever"),
        ({"key": "k", "unique": "-1 hours"}, "unique is ever"),
        ({"key": "k", "unique": None}, "unique is ever"),
        ({"unique": "until_done"}, "need a key"),
        ({"on_conflict": "error"}, "need a key"),
        ({"key": "k", "on_conflict": "ignore"}, "on_conflict is"),
        ({"key": "k", "on_conflict": None}, "on_conflict is"),
    ],
)
def test_options_that_the_client_refuses(
    sql: Sql, enqueue: Enqueue, options: dict[str, Any], message: str
) -> None:
    assert message in refused(sql, enqueue, "any", {}, **options)


def test_arguments_have_limits(sql: Sql, enqueue: Enqueue) -> None:
    """The last level and byte that fit, and the first that do not."""

    def deep(levels: int) -> Any:
        return {"a": deep(levels - 1)} if levels > 1 else {}

    assert "JSON object" in refused(sql, enqueue, "any", [1])
    assert "nested more than 200" in refused(sql, enqueue, "any", deep(201))
    assert "1,048,576 bytes" in refused(sql, enqueue, "any", {"a": "x" * (1_048_576 - 8)})
    enqueue("any", deep(200))
    enqueue("any", {"a": "x" * (1_048_576 - 9)})


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("offer", {"product": "chair"}),
    ("offer", {"product": "chair", "amount": 999.9, "pages": [1, 2, 3.0], "size": [1, "m"]}),
    ("offer", {"product": "chair", "colour": "red", "pet": {"kind": "cat", "lives": 9}}),
    ("offer", {"product": "chair", "chain": {"value": 1, "next": {"value": 2}}}),
    ("offer", {"product": "chair", "labels": {"a": 1}, "on": "2030-01-31", "price": "1.50"}),
    ("offer", {"product": "chair", "colour": None, "pet": None}),
    ("page", {"url": "u", "number": 1}),
    ("place", {"town": "Porto"}),
    ("any", {"anything": [None, True, {"a": 1.5}]}),
]

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("offer", {}, "product: missing"),
    ("offer", {"product": 7}, "product: a value of the type string is expected, not number"),
    ("offer", {"product": ""}, "product: shorter than 1"),
    ("offer", {"product": "x" * 21}, "product: longer than 20"),
    ("offer", {"product": "c", "amount": 0}, "amount: not more than 0"),
    ("offer", {"product": "c", "amount": 1000}, "amount: not less than 1000"),
    ("offer", {"product": "c", "amount": "many"}, "amount: a value of the type number"),
    ("offer", {"product": "c", "amount": None}, "amount: a value of the type number"),
    ("offer", {"product": "c", "pages": [1, 2, 3, 4]}, "pages: a list of more than 3"),
    ("offer", {"product": "c", "pages": [1, "two"]}, "pages.1: a value of the type integer"),
    ("offer", {"product": "c", "pages": [1.5]}, "pages.0: a value of the type integer"),
    ("offer", {"product": "c", "pages": {"0": 1}}, "pages: a value of the type array"),
    ("offer", {"product": "c", "size": [1]}, "size: a list of less than 2"),
    ("offer", {"product": "c", "size": [1, 2]}, "size.1: a value of the type string"),
    ("offer", {"product": "c", "colour": "green"}, "colour: not one of the values"),
    ("offer", {"product": "c", "pet": {"kind": "cow"}}, "pet.kind: not one of the values"),
    ("offer", {"product": "c", "pet": {"kind": "cat", "lives": 10}}, "pet.lives: more than 9"),
    ("offer", {"product": "c", "pet": {"kind": "cat", "lives": 0}}, "pet.lives: less than 1"),
    ("offer", {"product": "c", "chain": {"value": 1, "next": {}}}, "chain.next.value: missing"),
    ("offer", {"product": "c", "labels": {"a": "b"}}, "labels.a: a value of the type integer"),
    ("offer", {"product": "c", "colr": "red"}, "colr: not known"),
    ("page", {"url": "u", "number": "x"}, "number: a value of the type integer"),
    ("place", {}, "town: missing"),
]


@pytest.mark.parametrize(("pipeline", "args"), GOOD)
async def test_arguments_of_the_pipelines_type_are_stored(
    app: Regente, sql: Sql, enqueue: Enqueue, pipeline: str, args: dict[str, Any]
) -> None:
    """What SQL stores the pipeline's own type accepts."""
    task_id = enqueue(pipeline, args)
    assert task_row(sql, task_id)["args"] == args
    await app.enqueue(pipeline, args)


@pytest.mark.parametrize(("pipeline", "args", "message"), BAD)
async def test_other_arguments_are_refused(
    app: Regente, sql: Sql, enqueue: Enqueue, pipeline: str, args: dict[str, Any], message: str
) -> None:
    """F15: the error names the field; the client refuses them, too."""
    told = refused(sql, enqueue, pipeline, args)
    assert f"{pipeline}'s arguments are not valid: " in told
    assert message in told
    with pytest.raises(Exception, match="not valid"):
        await app.enqueue(pipeline, args)


async def test_a_type_without_a_schema_is_checked_by_its_pipeline_alone(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    class Strange:
        pass

    class Holds(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        strange: Strange | None = None

    assert json_schema(Holds) is None
    assert json_schema(dict) is None

    @registry.pipeline("strange", args=Holds)
    async def run(task: Task[Holds]) -> None: ...

    await register_pipelines(app.database.fetch, registry.select(None))
    assert column(sql, "SELECT regente.enqueue('strange', '{\"any\": 1}')") == [1]


async def test_a_new_registration_replaces_the_schema(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    """The last version of the code that started decides."""

    async def run(task: Task[Any]) -> None: ...

    for kind, lane in ((Page, None), (dict, None)):
        fresh = Registry()
        fresh.pipeline("p", args=kind, lane=lane, lane_limits=LaneLimits())(run)
        await register_pipelines(app.database.fetch, fresh.select(None))
        row = one(sql, "SELECT args_schema FROM regente.pipelines")
        assert (row["args_schema"] is None) == (kind is dict)
