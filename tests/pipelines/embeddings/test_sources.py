"""Files of texts: read line by line, and refused with the line that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from regente.engine.errors import InvalidInput
from regente.pipelines.embeddings.operations import chunks
from regente.pipelines.embeddings.sources import Format, Source


def written(folder: Path, name: str, body: bytes) -> Source:
    path = folder / name
    path.write_bytes(body)
    return Source.of(str(path))


def test_plain_lines_and_json_lines(tmp_path: Path) -> None:
    plain = written(tmp_path, "a.txt", "\ufeffone  text\r\n\n  two\nthrée".encode())
    assert list(plain.texts()) == ["one text", "two", "thrée"]
    lines = written(tmp_path, "a.jsonl", b'{"id": 1, "text": "one\\ntext"}\n\n"two"\n')
    assert list(lines.texts()) == ["one text", "two"]
    assert lines.count() == 2
    assert Source.of("a.jsonl", Format.TEXT).format is Format.TEXT


@pytest.mark.parametrize(
    ("name", "line", "wrong"),
    [
        ("a.txt", b"\xff\xfe", "line 2 of .* is not UTF-8"),
        ("a.txt", b"x" * 32_001, "line 2 of .* 32,001 characters"),
        ("a.txt", b"x" * (1024 * 1024 + 5), "line 2 of .* longer than"),
        ("a.txt", b"a\x00b", "line 2 of .* cannot be stored"),
        ("a.jsonl", b"{", "line 2 of .* is not JSON"),
        ("a.jsonl", b'{"words": "a"}', "line 2 of .* has no text"),
        ("a.jsonl", b'{"text": ""}', "line 2 of .* is empty"),
        ("a.jsonl", b'{"text": "\\ud800"}', "line 2 of .* cannot be stored"),
        ("a.jsonl", b"[" * 100_000, "line 2 of .* is not JSON"),
    ],
)
def test_the_wrong_line_is_named(tmp_path: Path, name: str, line: bytes, wrong: str) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        written(tmp_path, name, b'"fine"\n' + line + b"\n").count()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        Source.of(str(tmp_path / "none.txt")).count()


def test_tasks_hold_so_many_texts_and_not_too_many_characters() -> None:
    assert [len(chunk) for chunk in chunks(["x"] * 25, 10)] == [10, 10, 5]
    assert [len(chunk) for chunk in chunks(["y" * 30_000] * 7, 100)] == [3, 3, 1]
    assert list(chunks([], 10)) == []
