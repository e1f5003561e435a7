"""The ad library as a `Source`: curl through the session's proxy, and the cause of each failure."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode, urljoin, urlsplit

from curl_cffi import CurlECode, CurlOpt
from curl_cffi.requests import AsyncSession, Response
from curl_cffi.requests.exceptions import RequestException, SSLError, Timeout

from regente.contracts.worker import Cause, Filters, ProxyAddress
from regente.services.worker.ad_page import parse_page
from regente.services.worker.source import Page, SourceFailed

MAX_PAGE_BYTES = 20_000_000
_MAX_PAGE_SIZE = 200
_UNREACHABLE_PROXY = {CurlECode.COULDNT_RESOLVE_PROXY, CurlECode.COULDNT_CONNECT, CurlECode.PROXY}
_NEVER_CONNECTED = "Connection timed out"
_TUNNEL_ANSWER = re.compile(r"CONNECT tunnel failed, response (\d{3})")


class AdLibrary:
    """The `Source` of the pages below one base URL."""

    def __init__(
        self, base_url: str, *, timeout_seconds: float, connect_timeout_seconds: float
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._connect_timeout_seconds = connect_timeout_seconds

    def open(self, proxy: ProxyAddress | None) -> AdLibrarySession:
        return AdLibrarySession(
            self._base_url, proxy, self._timeout_seconds, self._connect_timeout_seconds
        )


class AdLibrarySession:
    def __init__(
        self,
        base_url: str,
        proxy: ProxyAddress | None,
        timeout_seconds: float,
        connect_timeout_seconds: float,
    ) -> None:
        self._base_url = base_url
        self._by_proxy = proxy is not None
        credentials = (proxy.username, proxy.password or "") if proxy and proxy.username else None
        self._http: AsyncSession[Response] = AsyncSession(
            proxy=_proxy_url(proxy) if proxy else None,
            proxy_auth=credentials,
            timeout=timeout_seconds,
            trust_env=False,
            allow_redirects=False,
            impersonate="chrome",
            curl_options={
                CurlOpt.MAXFILESIZE_LARGE: MAX_PAGE_BYTES,
                CurlOpt.CONNECTTIMEOUT_MS: int(connect_timeout_seconds * 1000),
            },
        )

    async def connect(self) -> None:
        await self._get(f"{self._base_url}/")

    async def authenticate(self) -> None:
        await self._get(f"{self._base_url}/session")

    async def warm_up(self) -> None:
        await self._get(f"{self._base_url}/home")

    async def read_page(self, filters: Filters, page_size: int, cursor: str | None) -> Page:
        url = cursor or f"{self._base_url}/ads?{_query(filters, page_size)}"
        html = await self._get(url)
        page = parse_page(html)
        return Page(
            page.ads,
            page.total,
            self._same_site(url, page.next_cursor) if page.next_cursor else None,
        )

    async def close(self) -> None:
        await self._http.close()

    async def _get(self, url: str) -> bytes:
        page = bytearray()
        try:
            async with self._http.stream("GET", url) as response:
                _check_status(response)
                async for chunk in response.aiter_content():  # decompressed
                    page += chunk
                    if len(page) > MAX_PAGE_BYTES:
                        raise _too_large()
        except RequestException as error:
            raise _failed_exchange(error, self._by_proxy) from None
        return bytes(page)

    def _same_site(self, url: str, link: str) -> str:
        """Resolve a link, and refuse one that leads to another site."""
        resolved = urljoin(url, link)
        if urlsplit(resolved)[:2] != urlsplit(self._base_url)[:2]:
            raise SourceFailed(Cause.LAYOUT, "the next page is on another site")
        return resolved


def _query(filters: Filters, page_size: int) -> str:
    return urlencode(
        {
            "start": filters.date_range.start,
            "end": filters.date_range.end,
            "format": filters.format,
            "languages": ",".join(filters.languages),
            "sort_by": filters.sort_by,
            "per_page": min(page_size, _MAX_PAGE_SIZE),
        }
    )


def _proxy_url(proxy: ProxyAddress) -> str:
    return proxy.server if "://" in proxy.server else f"http://{proxy.server}"


def _failed_exchange(error: RequestException, by_proxy: bool) -> SourceFailed:
    """Classify a failed request; a connection closed without a response is the proxy's fault."""
    response_began = error.response is not None and error.response.status_code != 0
    refused = _TUNNEL_ANSWER.search(str(error))
    if refused:
        return _refused_tunnel(int(refused[1]))
    if isinstance(error, Timeout) and by_proxy and _NEVER_CONNECTED in str(error):
        return SourceFailed(Cause.PROXY, "the proxy cannot be reached in time")
    if isinstance(error, Timeout):
        return SourceFailed(
            Cause.TARGET, "no complete answer in time", transient=True, timed_out=True
        )
    if error.code == CurlECode.FILESIZE_EXCEEDED:
        return _too_large()
    if not by_proxy or response_began or isinstance(error, SSLError):
        return SourceFailed(
            Cause.TARGET,
            f"the connection to the target failed (curl {int(error.code)})",
            transient=True,
        )
    if error.code in _UNREACHABLE_PROXY:
        return SourceFailed(Cause.PROXY, f"the proxy cannot be reached (curl {int(error.code)})")
    return SourceFailed(
        Cause.PROXY, f"the proxy closed the connection (curl {int(error.code)})", transient=True
    )


def _too_large() -> SourceFailed:
    return SourceFailed(
        Cause.LAYOUT, f"a page of more than {MAX_PAGE_BYTES} bytes is not a page of the ad library"
    )


def _refused_tunnel(status: int) -> SourceFailed:
    if status >= 500:
        return SourceFailed(
            Cause.TARGET,
            f"the proxy could not reach the target: {status}",
            http_status=status,
            transient=True,
        )
    return SourceFailed(Cause.PROXY, f"the proxy refused with {status}", http_status=status)


def _check_status(response: Response) -> None:
    status = response.status_code
    if status == 200:
        return
    if status in (407, 451):
        raise SourceFailed(Cause.PROXY, f"the proxy refused with {status}", http_status=status)
    if status == 429:
        wait = _retry_after(response)
        raise SourceFailed(
            Cause.THROTTLED,
            "the target asks to slow down",
            http_status=429,
            retry_after=wait,
            transient=True,
        )
    if status in (401, 403):
        raise SourceFailed(
            Cause.BLOCKED, f"the target refuses this session with {status}", http_status=status
        )
    raise SourceFailed(
        Cause.TARGET, f"the target answered {status}", http_status=status, transient=status >= 500
    )


def _retry_after(response: Response) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date."""
    value = str(response.headers.get("retry-after") or "")
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, until.timestamp() - time.time())
