"""Reading the source: headers, redirects, retries, changes between reads, refused addresses."""

from __future__ import annotations

import gzip
import json
import logging
from typing import Any

import pytest

from regente.address_guard import AddressRefused, GuardedNetwork, check_address
from tests.services.writer.client import WriterClient
from tests.services.writer.conftest import OpenWriter, Sql
from tests.services.writer.source_server import SourceServer, Visit, ads

SECRET = "canary-7d1f"


def document(count: int, **extra: Any) -> bytes:
    return json.dumps({"ads": ads(count), **extra}).encode()


async def test_headers_of_the_source_are_sent_and_then_forgotten(
    writer: WriterClient, source: SourceServer, sql: Sql, caplog: pytest.LogCaptureFixture
) -> None:
    """O22: headers and the URL's query are never logged, and are deleted when the job ends."""
    caplog.set_level(logging.DEBUG)
    url = source.serve({"ads": ads(2)}, f"/data.json?signature={SECRET}")
    job = await writer.run(url, headers={"Authorization": f"Bearer {SECRET}", "x-more": "1"})
    assert job["status"] == "completed"
    assert source.visits[0].headers["authorization"] == f"Bearer {SECRET}"
    assert source.visits[0].headers["x-more"] == "1"
    assert SECRET not in str(
        sql.execute("SELECT to_jsonb(jobs) FROM regente_writer.jobs").fetchall()
    )
    assert SECRET not in " ".join(
        record.getMessage() for record in caplog.records if record.name.startswith("regente")
    )
    assert SECRET not in json.dumps(job)


async def test_a_header_that_cannot_be_sent_fails_the_job_without_quoting_it(
    writer: WriterClient, source: SourceServer
) -> None:
    job = await writer.run(source.serve({"ads": []}), headers={"x-token": f"{SECRET}\r\nevil: 1"})
    assert job["status"] == "failed"
    assert SECRET not in json.dumps(job)


async def test_redirects_are_followed_and_secrets_stay_with_their_origin(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    async with SourceServer().running() as other:

        async def redirect(visit: Visit) -> None:
            await visit.head(302, location=other.serve({"ads": ads(3)}), content_length=0)

        job = await writer.run(source.on("/start", redirect), headers={"x-secret": SECRET})
    assert (job["status"], job["progress"]["total"]) == ("completed", 3)
    assert source.visits[0].headers["x-secret"] == SECRET
    assert "x-secret" not in other.visits[0].headers


async def test_endless_redirects_end(writer: WriterClient, source: SourceServer) -> None:
    async def redirect(visit: Visit) -> None:
        await visit.head(302, location="/round", content_length=0)

    job = await writer.run(source.on("/round", redirect))
    assert job["status"] == "failed"
    assert "redirects more than" in job["error"]


@pytest.mark.parametrize(
    "place", ["http://169.254.169.254/latest", "file:///etc/passwd", "http://[fe80::1]/"]
)
async def test_a_redirect_to_a_forbidden_place_is_not_followed(
    writer: WriterClient, source: SourceServer, place: str
) -> None:
    """Every redirect is checked again."""

    async def redirect(visit: Visit) -> None:
        await visit.head(307, location=place, content_length=0)

    job = await writer.run(source.on("/x", redirect))
    assert (job["status"], job["error_code"]) == ("failed", "ERROR300")


async def test_a_name_is_checked_by_what_it_resolves_to(
    open_writer: OpenWriter, source: SourceServer
) -> None:
    """`localhost` is a name, so it is refused only when it is resolved."""
    writer = await open_writer(allow_private=False)
    job = await writer.run(source.serve({"ads": []}).replace("127.0.0.1", "localhost"))
    assert (job["status"], job["error_code"]) == ("failed", "ERROR300")
    assert "not a public address" in job["error"]
    assert source.visits == []


async def test_the_connection_goes_to_the_address_that_was_checked(source: SourceServer) -> None:
    """A name server's second answer changes nothing: a name is resolved once."""

    class Rebinding(GuardedNetwork):
        asked = 0

        async def _resolve(self, host: str, port: int, timeout: float | None) -> list[str]:
            self.asked += 1
            return ["127.0.0.1"] if self.asked == 1 else ["10.1.2.3"]

    network = Rebinding(allow_private=True)
    stream = await network.connect_tcp(
        "rebinding.example", int(source.url.rsplit(":", 1)[1]), timeout=2
    )
    await stream.aclose()
    assert network.asked == 1


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "100.64.0.1", "::1", "fc00::1", "2002:7f00:1::"),
        *("::127.0.0.1", "::93.184.216.34", "fec0::1", "64:ff9b::7f00:1", "64:ff9b:1::1"),
        *("::ffff:0:127.0.0.1", "::ffff:0:7f00:1", "::5efe:127.0.0.1", "3fff::1", "5f00::1"),
        *("2001:4860::5efe:10.0.0.1", "2001:4860::200:5efe:10.0.0.1", "200::1", "400::1"),
        *("192.0.0.8", "192.88.99.1", "198.18.0.1", "240.0.0.1", "255.255.255.255"),
        *("2001:0:7f00:1::1", "2001:db8::1", "100::1", "fd00:ec2::254", "100.100.100.200"),
        *("::ffff:10.0.0.1", "::", "fe80::1", "ff02::1", "169.254.169.254", "0.0.0.0", "224.0.0.1"),
    ],
)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        check_address(address, allow_private=False)
    for public in ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34"):
        check_address(public, allow_private=False)


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"),
        *("64:ff9b:1::a9fe:a9fe", "::ffff:0:a9fe:a9fe", "2002:a9fe:a9fe::", "::169.254.169.254"),
        *("fe80::5efe:169.254.169.254", "fd00::5efe:169.254.169.254"),
        *("fd00:ec2::254", "100.100.100.200"),
    ],
)
def test_metadata_of_clouds_is_never_read(address: str) -> None:
    """O22: also where private addresses are allowed."""
    with pytest.raises(AddressRefused):
        check_address(address, allow_private=True)
    for private in ("10.0.0.1", "127.0.0.1", "::1", "fd00::1"):
        check_address(private, allow_private=True)


async def test_a_reset_in_the_middle_is_read_again_from_where_it_was(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    """F8: stored rows are skipped, missing ones are stored, none is stored twice."""
    body = document(1000)
    sql.execute("CREATE TABLE public.arrivals (id text)")
    writer = await open_writer(batch_bytes=10_000)
    sql.execute(
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.arrivals VALUES (NEW.id); RETURN NEW; END $$"
    )
    sql.execute(
        "CREATE TRIGGER note AFTER INSERT OR UPDATE ON public.ads FOR EACH ROW EXECUTE "
        "FUNCTION public.note()"
    )

    async def break_off(visit: Visit) -> None:
        await visit.head(content_length=len(body), etag='"v1"')
        if visit.number < 4:
            await visit.send(body[: visit.number * 50_000])
            await visit.writer.drain()
            visit.reset() if visit.number % 2 else visit.writer.close()
        else:
            await visit.send(body)

    job = await writer.run(source.on("/x", break_off))
    assert (job["status"], job["progress"]["success_count"]) == ("completed", 1000)
    found = sql.execute(
        "SELECT count(*), count(DISTINCT id) AS different FROM public.arrivals"
    ).fetchone()
    assert found == {"count": 1000, "different": 1000}


@pytest.mark.parametrize(
    ("etag", "count", "said"), [('"v2"', 1000, "ETag"), ('"v1"', 1001, "bytes")]
)
async def test_a_source_that_changes_between_two_reads_fails_the_job(
    open_writer: OpenWriter, source: SourceServer, etag: str, count: int, said: str
) -> None:
    first, second = document(1000), document(count)

    async def change(visit: Visit) -> None:
        now, tag = (first, '"v1"') if visit.number == 1 else (second, etag)
        await visit.head(content_length=len(now), etag=tag)
        await visit.send(now[:100_000] if visit.number == 1 else now)

    writer = await open_writer(batch_bytes=10_000)
    job = await writer.run(source.on("/x", change))
    assert (job["status"], job["error_code"]) == ("failed", "ERROR400")
    assert "changed between two reads" in job["error"]
    assert said in job["error"]
    assert 0 < job["progress"]["processed"] < 1000


@pytest.mark.parametrize("told", [-50, 50])
async def test_a_wrong_content_length_is_detected(
    writer: WriterClient, source: SourceServer, told: int
) -> None:
    """F8: shorter cuts the document off; longer never reaches its end."""
    body = document(20)

    async def lie(visit: Visit) -> None:
        await visit.head(content_length=len(body) + told)
        await visit.send(body)

    job = await writer.run(source.on("/x", lie))
    assert (job["status"], job["error_code"]) == ("failed", "ERROR400")


async def test_transient_errors_are_retried(writer: WriterClient, source: SourceServer) -> None:
    async def moody(visit: Visit) -> None:
        if visit.number < 4:
            await visit.head((500, 503, 429)[visit.number - 1], content_length=0)
        else:
            await visit.head(content_length=10)
            await visit.send(b'{"ads":[]}')

    assert (await writer.run(source.on("/x", moody)))["status"] == "completed"


async def test_gzip_is_read_and_a_bomb_is_not(
    open_writer: OpenWriter, source: SourceServer
) -> None:
    writer = await open_writer(source_bytes=1_000_000)
    url = source.serve(gzip.compress(document(50)), content_encoding="gzip")
    assert (await writer.run(url))["progress"]["success_count"] == 50
    bomb = gzip.compress(b'{"x":"' + b" " * 50_000_000)
    job = await writer.run(source.serve(bomb, "/bomb", content_encoding="gzip"))
    assert job["status"] == "failed"
    assert "larger than" in job["error"]
    job = await writer.run(
        source.serve(gzip.compress(document(50))[:-20], "/cut", content_encoding="gzip")
    )
    assert job["status"] == "failed"
    assert "cut off" in job["error"]
