"""npm's certified `oidc-provider` as a process, and a browser's way through its pages."""

from __future__ import annotations

import asyncio
import fcntl
import json
import re
import shutil
import signal
import subprocess
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from scripts.console import npm_here

FOLDER = Path(__file__).with_name("provider")
START_SECONDS = 60.0
CLIENT_ID = "regente"
SECRET = "a-secret-of-the-client-regente-only"


@dataclass(slots=True)
class OpenIdProvider:
    issuer: str
    accounts: Path

    @property
    def port(self) -> int:
        return urlsplit(self.issuer).port or 0

    def know(self, **accounts: Mapping[str, Any]) -> None:
        """Replace the accounts: their logins with their claims."""
        self.accounts.write_text(json.dumps(accounts), "utf-8")


def install() -> None:
    """Install the pinned packages, once, also when several tests begin at the same time."""
    npm, environment = npm_here()
    with (FOLDER / "package-lock.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (FOLDER / "node_modules" / "oidc-provider").is_dir():
            command = [*npm, "ci", "--ignore-scripts", "--loglevel=error"]
            subprocess.run(command, cwd=FOLDER, env=environment, check=True)


@asynccontextmanager
async def openid_provider(
    public_url: str, *, port: int = 0, claims_in_id_token: bool = False, public: bool = False
) -> AsyncIterator[OpenIdProvider]:
    """`public`: the client has no secret."""
    await asyncio.to_thread(install)
    _, environment = npm_here()
    node = shutil.which("node", path=environment["PATH"])
    assert node is not None
    client = {
        "client_id": CLIENT_ID,
        "redirect_uris": [f"{public_url}/api/session/oidc/callback"],
        "post_logout_redirect_uris": [f"{public_url}/sign-in"],
        **(
            {"token_endpoint_auth_method": "none"}
            if public
            else {"token_endpoint_auth_method": "client_secret_basic", "client_secret": SECRET}
        ),
    }
    with tempfile.TemporaryDirectory(prefix="regente-oidc-") as name:
        accounts = Path(name) / "accounts.json"
        accounts.write_text("{}", "utf-8")
        process = await asyncio.create_subprocess_exec(
            node,
            "provider.mjs",
            cwd=FOLDER,
            env=environment,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            asked = {
                "port": port,
                "accounts": str(accounts),
                "clients": [client],
                "claimsInIdToken": claims_in_id_token,
            }
            process.stdin.write(json.dumps(asked).encode())
            process.stdin.close()
            line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
            yield OpenIdProvider(json.loads(line)["issuer"], accounts)
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def at_the_provider(
    browser: httpx2.AsyncClient, response: httpx2.Response, login: str
) -> httpx2.Response:
    """Fill in the provider's pages (login, consent), up to its redirect back to Regente."""
    for _ in range(20):
        if response.is_redirect:
            target = response.url.join(response.headers["location"])
            if target.path.endswith("/api/session/oidc/callback"):
                return response
            response = await browser.get(target)
            continue
        assert response.status_code == 200, response.text
        found = re.search(r'<form [^>]*action="([^"]+)"', response.text)
        assert found is not None, response.text
        form = dict(re.findall(r'name="(\w+)" value="(\w+)"', response.text))
        if form["prompt"] == "login":
            form |= {"login": login, "password": "any"}
        response = await browser.post(response.url.join(found[1]), data=form)
    raise AssertionError("the provider does not come to an end")
