"""The console's files and pages over HTTP, in front of the API."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from regente.asgi.server import serving
from regente.console.files import FOLDER, load
from regente.console.serving import Console

INDEX = '<link href="./icon.svg"><script src="./assets/index-1a2b.js"></script>'
SCRIPT = "console.log(1);" * 100


async def api(scope: Scope, receive: Receive, send: Send) -> None:
    """An application behind the console: returns the path that it got."""
    if scope["type"] == "http":
        await PlainTextResponse(f"api {scope['path']}")(scope, receive, send)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "icon.svg").write_text("<svg/>")
    (tmp_path / "assets" / "index-1a2b.js").write_text(SCRIPT)
    return tmp_path


def client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, trust_env=False, verify=False)


async def test_every_page_is_the_document_and_finds_its_files_from_where_it_is(
    folder: Path,
) -> None:
    """O19: at the root and under a prefix, also when the first page is a deep one."""
    async with serving(Console(api, load(folder))) as url, client(url) as caller:
        for path, up in (
            ("/", "./"),
            ("/missions", "./"),
            ("/missions/42", "../"),
            ("/sign-in", "./"),
        ):
            answer = await caller.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/html")
            assert f'src="{up}assets/index-1a2b.js"' in answer.text
            assert answer.headers["cache-control"] == "no-cache"


async def test_the_document_says_which_pipelines_it_shows(folder: Path) -> None:
    """O19: what is switched off has no place in the menu."""
    (folder / "index.html").write_text(f"<head>{INDEX}</head><body></body>")
    shown = Console(api, load(folder), shown=["missions", "quotes"])
    async with serving(shown) as url, client(url) as caller:
        for path in ("/", "/missions/42"):
            document = (await caller.get(path)).text
            assert '<meta name="regente-pages" content="missions quotes"></head>' in document
    async with serving(Console(api, load(folder))) as url, client(url) as caller:
        assert "regente-pages" not in (await caller.get("/")).text


async def test_what_is_not_the_consoles_goes_to_the_api(folder: Path) -> None:
    """O18: the API's routes, unknown paths and every other method are left alone."""
    async with serving(Console(api, load(folder))) as url, client(url) as caller:
        for path in (
            "/api/missions",
            "/docs",
            "/metrics",
            "/nothing",
            "/assets/../../secret",
            "/index.html",
        ):
            assert (await caller.get(path)).text.startswith("api /")
        assert (await caller.post("/missions")).text == "api /missions"


async def test_files_are_compressed_kept_for_a_year_and_not_sent_twice(folder: Path) -> None:
    """O19: a hashed name never changes its content."""
    async with serving(Console(api, load(folder))) as url, client(url) as caller:
        answer = await caller.get("/assets/index-1a2b.js")
        assert answer.text == SCRIPT
        assert answer.headers["content-encoding"] == "gzip"
        assert (
            int(answer.headers["content-length"])
            == len(gzip.compress(SCRIPT.encode(), mtime=0))
            < len(SCRIPT)
        )
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "immutable" in answer.headers["cache-control"]
        plain = await caller.get("/assets/index-1a2b.js", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        again = await caller.get(
            "/icon.svg", headers={"if-none-match": (await caller.get("/icon.svg")).headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")
        assert (await caller.head("/")).status_code == 200


async def test_a_tree_without_a_built_console_says_so(tmp_path: Path) -> None:
    """O19: the API works without the console's files."""
    async with serving(Console(api, load(tmp_path))) as url, client(url) as caller:
        assert "has not been built" in (await caller.get("/")).text
        assert (await caller.get("/sign-in")).text == "api /sign-in"
        assert (await caller.get("/missions")).text == "api /missions"


async def test_a_path_of_very_many_segments_is_no_page(folder: Path) -> None:
    """I10: the document would grow with each, and be kept."""
    async with serving(Console(api, load(folder))) as url, client(url) as browser:
        answer = await browser.get("/missions" + "/" * 30_000)
        assert answer.text.startswith("api /missions/")
        assert "<script" in (await browser.get("/missions/7")).text


def test_the_licences_of_bundled_packages_are_built_in() -> None:
    """Their authors ask for it: the wheel contains them beside the code."""
    text = (FOLDER / "licenses.md").read_text("utf-8")
    for package in ("react-dom", "@mantine/core", "@tanstack/react-query", "@lingui/core"):
        assert f"## {package} - " in text
