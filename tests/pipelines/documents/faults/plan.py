"""The documents of a campaign and how each must end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from regente.pipelines.documents.standins.openrouter import ChatFault, OpenRouter
from tests.pipelines.documents import pdfs
from tests.pipelines.documents.faults.extractors import EXITS, KILLED

CLASSES = ("petição", "decisão", "contrato", "nota fiscal", "ofício", "outro")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
CRASHED, BURST = ("ISOLATED_CRASH",), ("ISOLATED_CRASH", "ISOLATED_MEMORY", "ISOLATED_TIMEOUT")


@dataclass(frozen=True, slots=True)
class Expected:
    """How a document must end: `codes` are the allowed reasons, `attempts` without a crash."""

    status: str
    attempts: int = 1
    codes: tuple[str, ...] = ()
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    share: float
    at_most: int
    made: Callable[[int], bytes]
    expected: Expected


def text(number: int, extra: str = "") -> str:
    return f"Documento {number:05}. {extra} Isto é um {CLASSES[number % len(CLASSES)]} de exemplo."


def good_pdf(number: int) -> bytes:
    return pdfs.text_pdf(text(number), pages=1 + number % 4)


def skipped(code: str) -> Expected:
    return Expected("PULADO", 1, (code,))


def failed(*codes: str) -> Expected:
    return Expected("ERRO", 3, codes)


def marked(mark: bytes) -> Callable[[int], bytes]:
    return lambda number: good_pdf(number) + mark


def said(word: str) -> Callable[[int], bytes]:
    return lambda number: text(number, word).encode()


KINDS = (
    Kind("corrupt.pdf", 0.02, 200, pdfs.corrupt_pdf, skipped("PDF_UNREADABLE")),
    Kind("cut.pdf", 0.02, 200, lambda number: good_pdf(number)[:300], skipped("PDF_UNREADABLE")),
    Kind(
        "encrypted.pdf",
        0.02,
        200,
        lambda number: pdfs.encrypted_pdf(text(number)),
        skipped("PDF_ENCRYPTED"),
    ),
    Kind("empty.pdf", 0.02, 200, lambda _: b"", skipped("EMPTY")),
    Kind(
        "huge.pdf",
        0.01,
        20,
        lambda number: good_pdf(number) + bytes(1024 * 1024),
        skipped("TOO_LARGE"),
    ),
    Kind("image.png", 0.02, 200, lambda _: PNG, skipped("IMAGE")),
    Kind("scanned.pdf", 0.02, 200, lambda _: pdfs.scanned_pdf(), skipped("NO_TEXT")),
    Kind("pageless.pdf", 0.01, 200, lambda _: pdfs.pageless_pdf(), skipped("NO_PAGES")),
    Kind("archive.docx", 0.01, 200, lambda _: b"PK\x03\x04" + bytes(99), skipped("UNSUPPORTED")),
    Kind("segfault.pdf", 0.02, 40, lambda _: pdfs.segfault_pdf(), failed(*CRASHED)),
    Kind("killed.pdf", 0.01, 20, marked(KILLED), failed(*CRASHED)),
    Kind("exits.pdf", 0.01, 20, marked(EXITS), failed(*CRASHED)),
    Kind("memory.pdf", 0.01, 3, lambda _: pdfs.memory_bomb_pdf(), failed(*BURST)),
    Kind("endless.pdf", 0.01, 3, lambda _: pdfs.endless_pdf(), failed(*BURST)),
    Kind("prose.txt", 0.01, 20, said("PROSE"), failed("ANSWER_NOT_JSON")),
    Kind("poem.txt", 0.01, 20, said("POEM"), failed("ANSWER_UNKNOWN_CLASS")),
    Kind("refused.txt", 0.01, 20, said("REFUSED"), failed("ANSWER_REFUSED")),
    Kind("down.txt", 0.01, 20, said("DOWN"), failed("HTTP_502")),
)
FAULTS = {
    "PROSE": ChatFault.NOT_JSON,
    "POEM": ChatFault.UNKNOWN_CLASS,
    "REFUSED": ChatFault.REFUSAL,
    "DOWN": ChatFault.SERVER_ERROR,
}


@dataclass(frozen=True, slots=True)
class Planned:
    code: str
    content: bytes
    expected: Expected


def plan(count: int, seed: int) -> list[Planned]:
    """At least one of each bad kind, the rest good (a fifth texts, else PDFs), shuffled by the
    seed."""
    bad = [
        kind for kind in KINDS for _ in range(max(1, min(kind.at_most, round(kind.share * count))))
    ]
    if len(bad) >= count:
        raise ValueError(f"{count} documents are too few: there are {len(bad)} bad ones")
    kinds: list[Kind | None] = [*bad, *([None] * (count - len(bad)))]
    random.Random(seed).shuffle(kinds)
    return [_planned(number, kind) for number, kind in enumerate(kinds)]


def _planned(number: int, kind: Kind | None) -> Planned:
    if kind is not None:
        return Planned(f"{number:05}-{kind.name}", kind.made(number), kind.expected)
    expected = Expected("CONCLUIDO", 1, (), CLASSES[number % len(CLASSES)])
    if number % 5 == 0:
        return Planned(f"{number:05}-good.txt", text(number).encode(), expected)
    return Planned(f"{number:05}-good.pdf", good_pdf(number), expected)


def arm(chat: OpenRouter, throttles: int) -> None:
    """Sets the API's faults: some texts always fail, and some calls are throttled."""
    for word, kind in FAULTS.items():
        chat.break_with(kind, contains=word)
    chat.break_with(ChatFault.THROTTLE, times=throttles, seconds=0.2)
