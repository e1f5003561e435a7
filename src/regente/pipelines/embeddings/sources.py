"""Reads texts from a file line by line: plain text or JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from regente.engine.errors import InvalidInput
from regente.pipelines.embeddings.contents import checked_text

MAX_LINE_BYTES = 1024 * 1024
STDIN = "-"


class Format(StrEnum):
    TEXT = "text"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Source:
    path: str
    format: Format

    @classmethod
    def of(cls, path: str, wanted: Format | None = None) -> Source:
        """The file with its format: JSON lines for `.jsonl` and `.ndjson`, else a text per line."""
        is_json = Path(path).suffix.lower() in (".jsonl", ".ndjson")
        return cls(path, wanted or (Format.JSONL if is_json else Format.TEXT))

    @property
    def can_be_read_twice(self) -> bool:
        return self.path != STDIN and Path(self.path).is_file()

    def count(self) -> int:
        """The number of texts; raises `InvalidInput` for the first invalid one."""
        return sum(1 for _ in self.texts())

    def texts(self) -> Iterator[str]:
        """The texts of the file, without empty lines."""
        with self._opened() as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                where = f"line {number:,} of {'stdin' if self.path == STDIN else self.path}"
                if len(line) > MAX_LINE_BYTES:
                    raise InvalidInput(f"{where} is longer than {MAX_LINE_BYTES:,} bytes")
                if line.strip():
                    yield checked_text(self._text(_decoded(line, where), where), where)

    def _text(self, line: str, where: str) -> str:
        if self.format is Format.TEXT:
            return line
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{where} is not JSON: {error}", code="INVALID_JSON") from None
        text = value.get("text") if isinstance(value, dict) else value
        if not isinstance(text, str):
            raise InvalidInput(f'{where} has no text: write {{"text": "…"}}, or a JSON string')
        return text

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        if self.path == STDIN:
            yield sys.stdin.buffer
            return
        try:
            file = Path(self.path).open("rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise InvalidInput(f"cannot read {self.path}: {error.strerror}") from None
        with file:
            yield file


def _decoded(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{where} is not UTF-8 text") from None
