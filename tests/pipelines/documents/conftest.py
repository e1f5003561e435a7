"""An app that classifies documents against the sandbox's chat API, with a movable clock."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.setup import DocumentPipelines, register_documents
from regente.pipelines.documents.standins.openrouter import OpenRouter
from regente.services.sandbox.sandbox import Sandbox
from tests.pipelines.documents.environment import Environment


@pytest.fixture(autouse=True)
def no_real_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes real API keys from the environment: tests must not cost money."""
    for name in [
        name
        for name in os.environ
        if name.startswith("REGENTE_DOCUMENTS_") or name == "OPENROUTER_API_KEY"
    ]:
        monkeypatch.delenv(name)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=0, standins=[OpenRouter(1)]) as opened:
        yield opened


@pytest.fixture
def chat(sandbox: Sandbox) -> OpenRouter:
    return next(one for one in sandbox.standins if isinstance(one, OpenRouter))


@pytest.fixture
def document_settings(request: pytest.FixtureRequest) -> DocumentSettings:
    return DocumentSettings(**getattr(request, "param", {}))


def with_settings(**changes: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("document_settings", [changes], indirect=True, ids=["settings"])


@pytest.fixture
async def pipelines(
    app: Regente, registry: Registry, sandbox: Sandbox, document_settings: DocumentSettings
) -> AsyncIterator[DocumentPipelines]:
    registered = register_documents(registry, app, document_settings, sandbox.url)
    yield registered
    await registered.close()


@pytest.fixture
def operations(app: Regente) -> DocumentOperations:
    return DocumentOperations(app)


@pytest.fixture
async def env(
    app: Regente, pipelines: DocumentPipelines, operations: DocumentOperations, tmp_path: Path
) -> Environment:
    folder = tmp_path / "files"
    folder.mkdir()
    return Environment(app, operations, folder)
