"""The pipeline of a document: extract its text, classify it, store the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regente.engine.errors import Skip
from regente.engine.isolation import run_isolated
from regente.engine.task import Task
from regente.engine.threads import run_in_thread
from regente.pipelines.documents.classifier import Classifier, Verdict, WrongAnswer
from regente.pipelines.documents.extraction import Extracted, FileKind, kind_of, plain_text, skipped
from regente.pipelines.documents.models import Document, DocumentArgs
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.sources import read_below
from regente.pipelines.documents.store import DocumentStore

TEXT, CLASSIFIED, STORED = "TEXT_EXTRACTED", "CLASSIFIED", "RESULT_STORED"

Extractor = Callable[[bytes, int], Extracted]


class DocumentPipeline:
    def __init__(
        self,
        store: DocumentStore,
        classifier: Classifier,
        settings: DocumentSettings,
        extract: Extractor,
    ) -> None:
        self._store = store
        self._classifier = classifier
        self._settings = settings
        self._extract = extract

    async def classify(self, task: Task[DocumentArgs]) -> dict[str, Any]:
        document = await self._store.document(task.id)
        calls = _Calls(self, task, document)
        try:
            found = await task.step(TEXT, calls.extract)
            verdict = await task.step(CLASSIFIED, calls.ask, found.text, lane=self._classifier.lane)
        except Skip as reason:
            await self._store.keep_reason(task, reason)
            raise
        await task.transact(STORED, self._store.store_result, task.id, found, verdict)
        return {
            "codigo": document.code,
            "categoria": verdict.category,
            "confianca": verdict.confidence,
        }

    async def extracted(self, content: bytes) -> Any:
        limit = self._settings.max_characters
        if kind_of(content) is FileKind.TEXT:
            return await run_in_thread(plain_text, content, limit, on_start=lambda _: None)
        return await run_isolated(
            self._extract,
            (content, limit),
            {},
            timeout_seconds=self._settings.extract_seconds,
            memory_mb=self._settings.extract_memory_mb,
            on_start=lambda _: None,
        )

    async def content(self, document: Document) -> bytes:
        limit = self._settings.max_file_bytes
        if document.size_bytes > limit:
            raise _too_large(document.size_bytes, limit)
        if document.folder is None:
            return await self._store.content(document)
        content: bytes = await run_in_thread(
            read_below, document.folder, document.code, limit, on_start=lambda _: None
        )
        if len(content) > limit:
            raise _too_large(len(content), limit)
        return content

    async def verdict(self, task: Task[DocumentArgs], document: Document, text: str) -> Verdict:
        # The same key until there is an answer, as a lost answer was paid for; a new key after a
        # wrong answer.
        key = task.idempotency_key(f"{CLASSIFIED}-{document.asked}")
        try:
            return await self._classifier.classify(document, text, key)
        except WrongAnswer as wrong:
            task.snapshot("answer.txt", wrong.answer, "text/plain")
            await self._store.keep_answer(task, wrong.answer)
            raise


class _Calls:
    """The calls about a document, as it is at this attempt. What is recorded stays right when the
    document or its project changes between attempts, so no step takes them as an argument."""

    def __init__(
        self, pipeline: DocumentPipeline, task: Task[DocumentArgs], document: Document
    ) -> None:
        self._pipeline = pipeline
        self._task = task
        self._document = document

    async def extract(self) -> Extracted:
        content = await self._pipeline.content(self._document)  # a replay needs none
        found: Extracted = await self._pipeline.extracted(content)
        return found

    async def ask(self, text: str) -> Verdict:
        return await self._pipeline.verdict(self._task, self._document, text)


def _too_large(size_bytes: int, limit: int) -> Skip:
    return skipped(
        "TOO_LARGE", f"the file has {size_bytes:,} bytes or more; at most {limit:,} are read"
    )
