"""Rows of the table: upsert and insert, duplicates, missing and unknown fields, types."""

from __future__ import annotations

from tests.services.writer.client import WriterClient
from tests.services.writer.conftest import OpenWriter, Sql
from tests.services.writer.source_server import SourceServer, ad, ads


async def test_an_upsert_renews_rows_and_keeps_what_it_does_not_bring(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    await writer.run(source.serve({"ads": [ad(1, url="https://a.example")]}))
    sql.execute("UPDATE public.ads SET first_seen_at = '2020-01-01', last_seen_at = '2020-01-01'")
    await writer.run(
        source.serve({"ads": [{"id": "ad-1", "text": "new", "language": None}]}, "/again.json")
    )
    row = sql.execute(
        "SELECT *, last_seen_at > now() - interval '1 minute' AS seen FROM public.ads"
    ).fetchone()
    assert row is not None
    assert (row["text"], row["language"], row["url"]) == ("new", None, "https://a.example")
    assert row["first_seen_at"].year == 2020
    assert row["seen"]


async def test_of_two_rows_with_one_key_the_last_one_wins_and_both_count(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """total = success + failed, also with duplicates in one batch and across shapes."""
    rows = [ad(1, text="first"), ad(2), {"id": "ad-1", "text": "second"}, ad(1, text="third")]
    job = await writer.run(source.serve({"ads": rows}))
    assert (job["status"], job["progress"]["success_count"]) == ("completed", 4)
    assert sql.execute("SELECT text FROM public.ads WHERE id = 'ad-1'").fetchall() == [
        {"text": "third"}
    ]


async def test_keys_that_only_postgresql_knows_to_be_equal_are_stored_once(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    sql.execute("CREATE TABLE public.numbers (n int PRIMARY KEY, t text)")
    writer = await open_writer(targets=frozenset({"public.numbers"}))
    rows = [{"n": 1, "t": "a"}, {"n": "01", "t": "b"}, {"n": 2, "t": "c"}]
    url = source.serve({"ads": rows})
    job = await writer.run(url, config={"table": "numbers", "conflict_key": "n"})
    assert (job["status"], job["progress"]["success_count"]) == ("completed", 3)
    assert sql.execute("SELECT t FROM public.numbers ORDER BY n").fetchall() == [
        {"t": "b"},
        {"t": "c"},
    ]
    sql.execute("TRUNCATE public.numbers")
    job = await writer.run(
        url, config={"table": "numbers", "conflict_key": "n", "operation": "insert"}
    )
    assert (job["status"], [item["index"] for item in job["failed_items"]]) == ("partial", [1])


async def test_an_insert_reports_each_duplicate(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """O22: nothing is silently left out."""
    await writer.run(source.serve({"ads": ads(5)}))
    rows = [ad(3, text="other"), ad(50), ad(4, text="other"), ad(51), ad(50, text="again")]
    job = await writer.run(
        source.serve({"ads": rows}, "/more.json"), config={"operation": "insert"}
    )
    assert (job["status"], job["progress"]["success_count"]) == ("partial", 2)
    assert [item["index"] for item in job["failed_items"]] == [0, 2, 4]
    assert all(item["error"].startswith("duplicate key") for item in job["failed_items"])
    assert sql.execute("SELECT count(*) FROM public.ads WHERE text = 'other'").fetchone() == {
        "count": 0
    }


async def test_fields_without_a_column_are_kept_in_raw(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    rows = [ad(1, colour="red", sizes=[1, 2]), ad(2, raw={"own": 1}, colour="blue"), ad(3)]
    await writer.run(source.serve({"ads": rows}))
    found = [row["raw"] for row in sql.execute("SELECT raw FROM public.ads ORDER BY id")]
    assert found == [{"colour": "red", "sizes": [1, 2]}, {"own": 1, "colour": "blue"}, None]


async def test_values_of_every_json_type_fit_their_columns(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    sql.execute(
        "CREATE TABLE public.mixed (id text PRIMARY KEY, flag boolean, price numeric, big "
        "bigint, tags text[], "
        "grid int[][], doc jsonb, label text, at timestamptz, sum int GENERATED ALWAYS AS "
        "(1 + 1) STORED)"
    )
    writer = await open_writer(targets=frozenset({"public.mixed"}))
    tags = ['quo"te', "back\\slash", "comma, {brace}", "", "NULL", None, "tab\t\nline"]
    row = {
        "id": 'k\\"\t',
        "flag": True,
        "price": 12345.6789,
        "big": 2**60,
        "tags": tags,
        "grid": [[1, 2], [3, 4]],
        "doc": {"a": ["x\ty", {"b": None}]},
        "label": {"nested": 1},
        "at": "2025-01-02T03:04:05Z",
        "sum": 7,
        "other": 1,
    }
    url = source.serve(
        {"ads": [row, {**row, "id": "2", "label": True, "doc": "text", "tags": None, "flag": None}]}
    )
    job = await writer.run(url, config={"table": "mixed"})
    assert job["status"] == "completed", job
    first, second = sql.execute("SELECT * FROM public.mixed ORDER BY id DESC").fetchall()
    assert first["id"] == row["id"]
    assert first["flag"] is True
    assert str(first["price"]) == "12345.6789"
    assert first["big"] == 2**60
    assert first["tags"] == tags
    assert first["grid"] == [[1, 2], [3, 4]]
    assert first["doc"] == row["doc"]
    assert first["label"] == '{"nested":1}'
    assert first["at"].year == 2025
    assert (second["label"], second["doc"], second["tags"], second["flag"]) == (
        "true",
        "text",
        None,
        None,
    )


async def test_constraints_of_the_table_refuse_rows_one_by_one(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    sql.execute("ALTER TABLE public.ads ADD CHECK (qtd_ads < 40), ALTER page_name SET NOT NULL")
    rows = [ad(number) for number in range(100)]
    rows[7]["page_name"] = None
    job = await writer.run(source.serve({"ads": rows}))
    bad = [number for number in range(100) if number == 7 or number % 50 >= 40]
    assert [item["index"] for item in job["failed_items"]] == bad
    assert sql.execute("SELECT count(*) FROM public.ads").fetchone() == {"count": 100 - len(bad)}


async def test_the_array_is_found_deep_inside_and_at_the_top(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """O22: json_path."""
    before = {"ads": [{"id": "wrong"}], "text": 'a "quoted" } ] text', "n": [1, [2, {"ads": []}]]}
    nested = {
        "meta": before,
        "data": {"first": before, "page.x": 1, "ads": ads(5), "after": before},
        "end": before,
    }
    job = await writer.run(source.serve(nested), json_path="data.ads")
    assert (job["status"], job["progress"]["total"]) == ("completed", 5)
    job = await writer.run(source.serve(ads(7), "/top.json"), json_path="")
    assert (job["status"], job["progress"]["total"]) == ("completed", 7)
    assert sql.execute("SELECT count(*) FROM public.ads").fetchone() == {"count": 7}
