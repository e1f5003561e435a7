"""Runs the code of docs/pipelines/your-own.md."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import psycopg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from regente.asgi.server import serving
from tests.acceptance.conftest import CliProcess

PAGE = Path(__file__).parents[2] / "docs" / "pipelines" / "your-own.md"


def program() -> str:
    [found] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


class Site:
    """A page with three links, one of them broken. It fails at first."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "HEAD"])])

    async def answer(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        match request.url.path:
            case "/" if self.asked.count("/") == 1:
                return Response(status_code=503)
            case "/":
                return HTMLResponse(
                    "<a href='/a'>a</a> <a href='/b'>b</a> <a href='/gone'>c</a> <a "
                    "href='/a'>again</a>"
                )
            case path:
                return Response(status_code=404 if path == "/gone" else 200)


def test_the_example_has_at_most_forty_lines() -> None:
    """As the page says."""
    assert len([line for line in program().splitlines() if line.strip()]) <= 40


async def test_it_runs_as_the_page_says(
    start: Callable[..., CliProcess], database_url: str, tmp_path: Path
) -> None:
    """Retried when the page fails, its links checked once each, the result stored."""
    module = tmp_path / "links.py"
    module.write_text(program(), encoding="utf-8")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE links (page text, link text, status int, PRIMARY KEY (page, link))"
        )
    site = Site()
    async with serving(site.app()) as url:
        for words in (("enqueue", "links", f'{{"url": "{url}/"}}'), ("run", "--until-idle")):
            done = await asyncio.to_thread(start(*words, "--import", str(module)).wait, 60)
            assert done.code == 0, done.err
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("SELECT link, status FROM links ORDER BY link").fetchall()
        result = connection.execute("SELECT status, tries, result FROM regente.tasks").fetchall()
    assert rows == [(f"{url}/a", 200), (f"{url}/b", 200), (f"{url}/gone", 404)]
    assert result == [("completed", 1, {"links": 3, "broken": 1})]
    assert sorted(site.asked) == ["/", "/", "/a", "/b", "/gone"]
