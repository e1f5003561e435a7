"""The ASGI application: middleware, routes and error handlers around an open `Regente`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.api.access.middleware import AccessMiddleware
from regente.api.access.roles import guard
from regente.api.config import ApiConfig
from regente.api.limits import BodyLimits
from regente.api.metrics.exporter import MetricsExporter
from regente.api.metrics.requests import RequestTimes
from regente.api.middleware import RequestMiddleware
from regente.api.openapi import describe
from regente.api.problems import add_problem_answers
from regente.api.routes import routers_of
from regente.api.state import Api
from regente.api.stream.feed import Feed
from regente.api.uploads import upload_paths
from regente.app import Regente
from regente.console import Console
from regente.pipelines.builtins import switched_on


def create_app(regente: Regente, config: ApiConfig | None = None) -> FastAPI:
    """Create the application. `regente` must be open for as long as it is served, with the tables
    of the API and of every enabled built-in."""
    config = config or ApiConfig()
    builtins = switched_on(regente.settings.builtins)
    additions = [added for one in builtins for added in one.api_additions()]
    api = Api.over(regente, config, additions)
    feed = Feed(regente.database, config.stream, config.session_idle_minutes * 60)
    metrics = MetricsExporter(regente.database, feed, config.metrics_seconds, additions)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        api.bulk.start()
        try:
            yield
        finally:
            await api.bulk.stop()
            await feed.close()
            if api.oidc is not None:
                await api.oidc.close()

    app = FastAPI(
        title="Regente",
        version=version("regente"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        servers=[{"url": config.path_prefix}] if config.path_prefix else None,
    )
    app.state.api, app.state.feed, app.state.metrics = api, feed, metrics
    routers = routers_of(builtins)
    for router in routers:
        # `include_router` would copy every route at the application's first request.
        app.router.routes.extend(guard(router).routes)
    tags = {name: about for one in builtins for name, about in one.tags.items()}
    describe(app, routers, tags)
    add_problem_answers(app)
    # The middleware that is added last is the outermost.
    app.add_middleware(BodyLimits, config=config, uploads=upload_paths(routers))
    app.add_middleware(
        AccessMiddleware,
        config=config,
        keys=api.keys,
        sessions=api.sessions,
        wrong_keys=api.wrong_keys,
        denials=api.denials,
    )
    app.add_middleware(Console, shown=[one.page for one in builtins if one.page])
    app.add_middleware(RequestMiddleware, is_https=config.is_https)
    app.add_middleware(RequestTimes, histogram=metrics.requests)
    if config.path_prefix:
        app.add_middleware(PathPrefix, prefix=config.path_prefix)
    return app


class PathPrefix:
    """Serves the application under a prefix, which a reverse proxy may strip or keep."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "root_path": self._prefix}
        await self._app(scope, receive, send)
