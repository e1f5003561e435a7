"""The addresses of members that the register takes: where calls, keys and passwords are sent.

Missions migration 9 has the same rule for rows that are written in SQL; tests/fleet/addresses.py
has the cases of both.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from unicodedata import normalize
from urllib.parse import urlsplit

from regente.address_guard import AddressRefused, check_url
from regente.engine.errors import InvalidInput

_HOST = (
    r"(?:\[[0-9A-Fa-f:]*:[0-9A-Fa-f:]*(?:(?:[0-9]+\.){3}[0-9]+)?\]"
    r"|(?:[-.0-9A-Za-z_]|[^\u0000-\u00ad\u1680\u2000-\u206f\u3000\ufeff])+)"
)
_PORT = r"(?::(?P<port>[0-9]{1,5}))?"
_IS_HOST = re.compile(_HOST)
_URL = re.compile(rf"(?i:https?)://(?P<host>{_HOST}){_PORT}(?:/[^?#]*)?")
_PROXY = re.compile(rf"(?:(?:https?|socks5h?)://)?(?P<host>{_HOST}){_PORT}")
_WITH_USER = re.compile(r"[^/?#]*//[^/?#]*@")


def checked_url(value: object) -> str:
    """A URL of a worker, a writer or a storage, without a query or a user name."""
    text = str(value)
    if _WITH_USER.match(text):
        raise InvalidInput("an address carries no user name or password: use the api_key")
    found = _URL.fullmatch(text)
    is_plain = text.isprintable() and " " not in text
    if len(text) > 500 or not is_plain or found is None or not _is_port(found["port"]):
        raise InvalidInput(f"{text[:200]!r} is not an address like https://worker.example.com")
    checked_host(found["host"])
    return text.rstrip("/")


def checked_storage(value: object) -> str:
    text = str(value).rstrip("/")
    if not 0 < len(text) <= 255 or any(sign.isspace() for sign in text):
        raise InvalidInput(
            "a storage_domain has 1 to 255 characters without spaces, for example "
            "storage.example.com"
        )
    checked_url(text if "://" in text else f"https://{text}")
    return text


def checked_proxy(value: object) -> str:
    """A host with or without a scheme and a port."""
    found = _PROXY.fullmatch(value) if isinstance(value, str) else None
    if found is None or len(found.string) > 200 or not _is_port(found["port"]):
        raise InvalidInput(
            f"{str(value)[:100]!r} is not a host, for example proxy.example.com or "
            "socks5://10.0.0.7"
        )
    checked_host(found["host"])
    return found.string


def has_port(proxy: str) -> bool:
    found = _PROXY.fullmatch(proxy)
    return found is not None and found["port"] is not None


def origin(address: str) -> str:
    """Scheme, host and port of a URL; a proxy's host has no path."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else address.lower()


def checked_host(host: str) -> str:
    """A name, or an address that is not link-local, multicast or of a cloud's metadata."""
    if not all(_IS_HOST.fullmatch(one) for one in (host, normalize("NFKC", host))):
        raise InvalidInput(f"{host[:100]!r} is not a host")
    try:
        if host.startswith("["):
            IPv6Address(host[1:-1])
        check_url(f"http://{host}", allow_private=True)
    except AddressValueError:
        raise InvalidInput(f"{host[:100]!r} is not a host") from None
    except AddressRefused as refused:
        raise InvalidInput(str(refused)) from None
    return host


def _is_port(port: str | None) -> bool:
    return port is None or 0 < int(port) < 65_536
