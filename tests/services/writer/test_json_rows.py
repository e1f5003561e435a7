"""Cutting an array at every size of chunk and batch yields the same rows."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from regente.services.writer.failures import JobFailure
from regente.services.writer.json_outline import enter_array, leave_document
from regente.services.writer.json_rows import RowReader, Unreadable
from regente.services.writer.json_window import Window


async def chunked(document: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(document), size):
        yield document[start : start + size]


async def read(
    document: bytes, path: tuple[str, ...] = ("ads",), *, chunk: int = 7, batch: int = 40
) -> list[Any]:
    window = Window(chunked(document, chunk), limit_bytes=10_000)
    await enter_array(window, path)
    rows = [
        row
        async for rows in RowReader(window, batch_bytes=batch, row_bytes=10_000).batches()
        for row in rows
    ]
    await leave_document(window, len(path))
    return rows


def any_value(chance: random.Random, depth: int = 0) -> Any:
    kinds = 5 if depth > 3 else 7
    match chance.randrange(kinds):
        case 0:
            return chance.choice([None, True, False, 0, -1.5, 10**15, 1e-7])
        case 1 | 2 | 3 | 4:
            return "".join(chance.choices('ab{}[],:"\\/\n\t é😀},{', k=chance.randrange(12)))
        case 5:
            return [any_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {f"k{n}}},{{": any_value(chance, depth + 1) for n in range(chance.randrange(4))}


@pytest.mark.parametrize("seed", range(20))
async def test_any_rows_are_read_back_at_any_border(seed: int) -> None:
    """O22: braces in texts, nested arrays, UTF-8 cut in the middle, white space everywhere."""
    chance = random.Random(seed)
    rows = [
        any_value(chance) if chance.random() < 0.3 else {"id": n, "v": any_value(chance)}
        for n in range(chance.randrange(30))
    ]
    indent, ascii_only = chance.choice([None, 1]), chance.random() < 0.5
    document = json.dumps(
        {"x": any_value(chance), "ads": rows, "y": any_value(chance)},
        indent=indent,
        ensure_ascii=ascii_only,
    )
    for chunk in (1, 3, 64, 100_000):
        for batch in (1, 50, 1_000):
            assert await read(document.encode(), chunk=chunk, batch=batch) == rows, (
                seed,
                chunk,
                batch,
            )


async def test_every_truncation_is_noticed() -> None:
    document = json.dumps(
        {"a": {"b": 1}, "ads": [{"id": 1, "t": "é}{"}, {"id": 2}], "z": [1]}, ensure_ascii=False
    ).encode()
    for end in range(len(document)):
        with pytest.raises(JobFailure):
            await read(document[:end])


async def test_a_bad_element_is_handed_over_as_it_is() -> None:
    rows = await read(b'{"ads":[{"id":1},{"id" 2},tru,{"id":3}]}', batch=1_000)
    assert rows[0] == {"id": 1}
    assert rows[3] == {"id": 3}
    assert isinstance(rows[1], Unreadable)
    assert rows[1].text == '{"id" 2}'
    assert isinstance(rows[2], Unreadable)


@pytest.mark.parametrize(
    "document",
    [b'{"ads":[1}', b'{"ads":[{"id":1]]}', b'{"ads":[,1]}', b'{"ads":[1,,2]}', b'{"ads":[1]]'],
)
async def test_brackets_that_do_not_match_end_the_reading(document: bytes) -> None:
    found: list[Any] = []
    with pytest.raises(JobFailure):
        found = await read(document)
    assert not found


async def test_a_row_larger_than_the_bound_is_refused() -> None:
    with pytest.raises(JobFailure, match="longer than"):
        await read(b'{"ads":[{"id":"' + b"x" * 50_000 + b'"}]}', chunk=1_000)
