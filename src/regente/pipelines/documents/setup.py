"""Registers the documents' pipeline in a process that runs it."""

from __future__ import annotations

from dataclasses import dataclass

from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from regente.http_client.client import HttpClient
from regente.pipelines.builtin import Host, Registered
from regente.pipelines.documents.classifier import Classifier
from regente.pipelines.documents.models import DOCUMENT_SECONDS, STALL_SECONDS, DocumentArgs
from regente.pipelines.documents.pipeline import DocumentPipeline, Extractor
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.store import DocumentStore

BACKOFF = Retry(max_attempts=3, first=5.0, factor=2.0, jitter=False)
"""5 s, doubled, as the specification requires; the project sets the number of retries."""


@dataclass(frozen=True, slots=True)
class DocumentPipelines:
    http: HttpClient

    async def close(self) -> None:
        await self.http.close()


def register(host: Host) -> Registered:
    documents = register_documents(host.registry, host.client, DocumentSettings(), host.sandbox_url)
    return Registered(documents.close)


def register_documents(
    registry: Registry,
    client: Client,
    settings: DocumentSettings,
    sandbox_url: str,
    *,
    extract: Extractor | None = None,
) -> DocumentPipelines:
    """Register the pipeline with an HTTP client of its own, with a longer timeout and its key."""
    from regente.pipelines.documents.pdf import (
        pdf_text,
    )  # slow to import, and of no use where nothing is run

    http = HttpClient(settings.answer_seconds, mask=settings.mask)
    classifier = Classifier(http, settings, settings.chat_url(sandbox_url))
    documents = DocumentPipeline(
        DocumentStore(client.database), classifier, settings, extract or pdf_text
    )
    registry.pipeline(
        "documents",
        args=DocumentArgs,
        retry=BACKOFF,
        stall_after=STALL_SECONDS,
        timeout=DOCUMENT_SECONDS,
        concurrency=settings.concurrency,
    )(documents.classify)
    return DocumentPipelines(http)
