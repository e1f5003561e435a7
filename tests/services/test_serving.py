"""Applications on a real server: inside a test, and as a command that is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI

from regente.asgi.server import ServiceNotStarted, serve_until_stopped, serving


def greeting() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def greet() -> str:
        return "hello"

    return app


async def fetch(url: str) -> object:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        return (await client.get(url)).json()


async def test_an_application_answers_while_it_is_served() -> None:
    async with serving(greeting()) as url:
        assert await fetch(url) == "hello"
    with pytest.raises(httpx2.ConnectError):
        await fetch(url)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_command_serves_until_it_is_stopped(sign: signal.Signals) -> None:
    announced: asyncio.Queue[str] = asyncio.Queue()
    running = asyncio.create_task(
        serve_until_stopped(greeting(), "127.0.0.1", 0, announced.put_nowait)
    )
    assert await fetch(await announced.get()) == "hello"
    os.kill(os.getpid(), sign)
    await asyncio.wait_for(running, 30)


async def test_a_taken_port_is_told_in_one_line() -> None:
    async with serving(greeting()) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(
            OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            async with serving(greeting(), port=port):
                pass


async def test_a_service_that_cannot_start_does_not_end_the_program() -> None:
    @asynccontextmanager
    async def broken(app: FastAPI) -> AsyncIterator[None]:
        if app.title != "healthy":
            raise ValueError("no database")
        yield

    with pytest.raises(ServiceNotStarted):
        async with serving(FastAPI(lifespan=broken)):
            pass
