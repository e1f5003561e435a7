"""Answers of third parties that are made to crash, fill or hold up the caller."""

from __future__ import annotations

import contextlib
import gzip
import resource
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from regente.contracts.writer import WriterJob
from regente.http_client.client import CallFailed, CallFailure, HttpClient
from regente.pipelines.documents import chat
from regente.pipelines.embeddings import openai_api
from regente.pipelines.quotes import anthropic, fipe, serpapi
from tests.services.writer.source_server import SourceServer, Visit

MEBIBYTE = 2**20
LARGE = 5 * MEBIBYTE
"""More than what is kept as a whole."""
MANY = [1] * 1000
ADS = b'"ads":["' + b"x" * 900_000 + b'",' + b'"",' * 1_700_000 + b'""]'


class Status(BaseModel):
    status: str | None = None
    ads_count: int | None = None


@pytest.fixture
async def peer() -> AsyncIterator[SourceServer]:
    async with SourceServer().running() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient(30.0)
    yield client
    await client.close()


async def refused(http: HttpClient, url: str) -> str:
    """The message of the call's failure, which costs seconds of the processor at most."""
    began = time.process_time()
    with pytest.raises(CallFailed) as caught:
        await http.call("GET", url, answer=Status)
    assert caught.value.failure is CallFailure.PROTOCOL
    assert time.process_time() - began < 10.0
    return caught.value.message


HOSTILE = {
    "an integer": b'{"ads_count":' + b"9" * LARGE + b"}",
    "an integer after much else": b"{" + ADS + b',"ads_count":' + b"9" * 70_000 + b"}",
    "an exponent": b"{" + ADS + b',"ads_count":1e999999999}',
    "a string": b'{"status":"' + b"a" * 60 * MEBIBYTE + b'"}',
    "a name": b'{"' + b"a" * 60 * MEBIBYTE + b'":1}',
    "space": b"{" + b" " * 60 * MEBIBYTE + b"}",
    "depth": b'{"ads":' + b"[" * LARGE,
    "a part": b"{" + ADS,
    "a small integer that is too long": b'{"ads_count":' + b"9" * 100_000 + b"}",
    "small depth": b'{"ads":' + b"[" * MEBIBYTE,
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_an_answer_of_one_endless_part_is_refused(
    peer: SourceServer, http: HttpClient, name: str
) -> None:
    """F8, F15: a worker's answer neither crashes the JSON parser nor makes it begin again with
    each piece."""
    await refused(http, peer.serve(HOSTILE[name]))


CROWDS = {
    "empty objects": (b"{},", "lists and objects"),
    "empty lists": (b"[],", "lists and objects"),
    "numbers": (b"1,", "valid dictionary"),
}


@pytest.mark.parametrize("name", CROWDS)
async def test_an_answer_of_too_many_parts_is_refused(
    peer: SourceServer, http: HttpClient, name: str
) -> None:
    """F15, O18: as models they would take gigabytes, and seconds in which nothing else runs."""
    part, problem = CROWDS[name]
    items = part * (3 * MEBIBYTE // len(part))
    url = peer.serve(b'{"shopping_results":[' + items[:-1] + b"]}")
    with pytest.raises(CallFailed, match=problem) as caught:
        await http.call("GET", url, answer=serpapi.Answer)
    assert caught.value.failure is CallFailure.PROTOCOL


LISTS = [
    (serpapi.Answer, {"shopping_results": MANY}),
    (serpapi.ProductAnswer, {"product_results": {"stores": MANY}}),
    (fipe.Entries, MANY),
    (fipe.Models, {"modelos": MANY}),
    (anthropic.Reply, {"content": MANY}),
    (openai_api.Answer, {"data": MANY}),
    (openai_api.Answer, {"data": [{"index": 0, "embedding": [[]] * 1000}]}),
    (chat.ChatAnswer, {"choices": MANY}),
    (WriterJob, {"job_id": "1", "status": "partial", "failed_items": MANY}),
]


@pytest.mark.parametrize(("model", "answer"), LISTS, ids=range(len(LISTS)))
def test_a_list_is_refused_for_its_first_wrong_item(model: type[BaseModel], answer: Any) -> None:
    """F15, O18: each further mistake would be an object of its own."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(answer)
    assert caught.value.error_count() <= 2  # of a union one for each choice


async def test_a_large_answer_is_read_for_its_plain_fields(
    peer: SourceServer, http: HttpClient
) -> None:
    """O8: a worker that puts every ad into its status; unknown fields cost no memory."""
    many = b",".join(b'"f%d":1' % number for number in range(500_000))
    answer = b'{"status":"completed",' + ADS + b"," + many + b',"ads_count":12}'
    found = await http.call("GET", peer.serve(answer), answer=Status)
    assert found == Status(status="completed", ads_count=12)


@pytest.mark.parametrize("layers", [1, 2, 3])
async def test_a_compressed_answer_is_inflated_piece_by_piece(
    peer: SourceServer, http: HttpClient, layers: int
) -> None:
    """F8: a page of kilobytes that would take gigabytes of memory."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(b" " * MEBIBYTE) for _ in range(200)) + packer.flush()
    for _ in range(layers - 1):
        bomb = gzip.compress(bomb)
    url = peer.serve(bomb, content_encoding=", ".join(["gzip"] * layers))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CallFailed, match=r"encoded as|answered more than"):
        await http.page(url)
    await refused(http, url)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


async def test_a_compressed_answer_is_read(peer: SourceServer, http: HttpClient) -> None:
    """O8: whole ones, and not those that are cut off; an error is known by its status."""
    packed = gzip.compress(b'{"status":"completed"}')
    url = peer.serve(packed, content_encoding="gzip")
    assert (await http.call("GET", url, answer=Status)).status == "completed"
    assert "cut off" in await refused(http, peer.serve(packed[:-9], content_encoding="gzip"))
    assert "not valid" in await refused(http, peer.serve(b"plain", content_encoding="gzip"))
    assert "'br'" in await refused(http, peer.serve(b"x", content_encoding="br"))

    async def away(visit: Visit) -> None:
        await visit.head(503, content_length=1, content_encoding="br")
        await visit.send(b"x")

    with pytest.raises(CallFailed, match="answered 503") as failed:
        await http.call("GET", peer.on("/away", away), answer=Status)
    assert failed.value.failure is CallFailure.SERVER


HOSTILE_TYPES = (
    "text/html; charset=punycode",  # its time is quadratic in the length
    "text/html; charset=idna",
    "text/html; charset=zlib_codec",
    "text/html; charset=unicode_escape",
    "text/html; charset=" + "x" * 60_000,
    'text/html; a="' + ";" * 60_000,  # and so is that of the standard library's parser
)


@pytest.mark.parametrize("content_type", HOSTILE_TYPES, ids=range(len(HOSTILE_TYPES)))
async def test_a_page_of_an_odd_charset_is_read_as_utf_8(
    peer: SourceServer, http: HttpClient, content_type: str
) -> None:
    """F8: the header is the page's word, and chooses no codec that web pages do not have."""
    page = "é".encode() + b"a" * 3 * MEBIBYTE + b"-" + b"b" * 1_000_000
    began = time.process_time()
    found = await http.page(peer.serve(page, content_type=content_type))
    assert found.text.startswith("éa")
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    ("charset", "codec"),
    [("ISO-8859-1", "latin-1"), ('"windows-1252"', "cp1252"), ("utf-16le", "utf-16-le")],
)
async def test_a_page_has_the_charset_of_its_header(
    peer: SourceServer, http: HttpClient, charset: str, codec: str
) -> None:
    url = peer.serve("preço".encode(codec), content_type=f"text/html;charset={charset}")
    assert (await http.page(url)).text == "preço"


async def test_an_answer_that_only_promises_more_is_ended(peer: SourceServer) -> None:
    """F8: interim responses without an end, until the call's own time limit."""

    async def promise(visit: Visit) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await visit.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    client = HttpClient(0.2)
    try:
        with pytest.raises(CallFailed) as caught:
            await client.call("GET", peer.on("/promise", promise), answer=Status)
        assert caught.value.failure is CallFailure.TIMEOUT
    finally:
        await client.close()
