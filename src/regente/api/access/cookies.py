"""The cookies that the API sets: HttpOnly, and over HTTPS with a prefix that browsers enforce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from regente.api.access.sessions import COOKIE
from regente.api.config import ApiConfig

SIGN_IN = "regente_oidc"
"""Of a sign-in with the provider that is under way."""


@dataclass(frozen=True, slots=True)
class Cookie:
    name: str
    secure: bool
    path: str
    same_site: Literal["strict", "lax"]

    @classmethod
    def of(cls, base: str, scope: Scope, config: ApiConfig) -> Cookie:
        """`__Host-` is taken from this host only and sent to all of its paths; under a path prefix
        there may be another Regente, so that there it is `__Secure-`."""
        secure = config.is_https or scope["scheme"] == "https"
        path = config.path_prefix or "/"
        prefix = "" if not secure else "__Host-" if path == "/" else "__Secure-"
        # The provider's redirect comes from another site, for which a strict one is not sent.
        return cls(prefix + base, secure, path, "strict" if base == COOKIE else "lax")

    def read(self, scope: Scope) -> str | None:
        return cookie_parser(Headers(scope=scope).get("cookie", "")).get(self.name) or None

    def set(self, response: Response, value: str, max_age_seconds: float) -> None:
        response.set_cookie(
            self.name,
            value,
            max_age=max(0, int(max_age_seconds)),
            path=self.path,
            secure=self.secure,
            httponly=True,
            samesite=self.same_site,
        )

    def delete(self, response: Response) -> None:
        response.delete_cookie(
            self.name, path=self.path, secure=self.secure, httponly=True, samesite=self.same_site
        )


def session_cookie(scope: Scope, config: ApiConfig) -> Cookie:
    return Cookie.of(COOKIE, scope, config)
