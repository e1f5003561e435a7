"""Classifies a text with the chat API, and validates the answer."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from regente.engine.errors import Throttled, Transient
from regente.http_client.client import HttpClient
from regente.http_client.lanes import lane_of
from regente.http_client.task_errors import as_task_errors
from regente.pipelines.documents.chat import ChatAnswer, Choice, ProviderError, chat_request
from regente.pipelines.documents.models import Classification, Document
from regente.pipelines.documents.settings import DocumentSettings

MAX_KEPT_CHARACTERS = 4_000
REST_SECONDS = 30.0


class WrongAnswer(Transient):
    """The answer is unusable. It is stored; the retry asks a new question."""

    code = "ANSWER_WRONG"

    def __init__(self, message: str, code: str, answer: str) -> None:
        super().__init__(message, code=code, details={"answer": answer[:MAX_KEPT_CHARACTERS]})
        self.answer = answer[:MAX_KEPT_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Verdict:
    category: str
    confidence: float
    rationale: str
    model: str


class Classifier:
    def __init__(self, http: HttpClient, settings: DocumentSettings, url: str) -> None:
        self._http = http
        self._settings = settings
        self._url = f"{url}/chat/completions"
        self.lane = lane_of("chat", url, settings.lane_limits)

    async def classify(self, document: Document, text: str, idempotency_key: str) -> Verdict:
        model = document.model or self._settings.model
        request = chat_request(document, text, model, routed="openrouter" in self._url)
        with as_task_errors():
            answer = await self._http.call(
                "POST",
                self._url,
                body=request,
                headers=self._headers(idempotency_key),
                answer=ChatAnswer,
            )
        if answer.error is not None:
            raise _of_provider(answer.error)
        found = checked(answer, document)
        return Verdict(found.category, found.confidence, found.rationale, answer.model or model)

    def _headers(self, idempotency_key: str) -> dict[str, str]:
        key = self._settings.api_key
        authorization = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
        return {**authorization, "idempotency-key": idempotency_key, "x-title": "Regente"}


def checked(answer: ChatAnswer, document: Document) -> Classification:
    """The validated answer, or `WrongAnswer`: not every model follows the schema."""
    if not answer.choices:
        raise WrongAnswer("the answer has no choice", "ANSWER_EMPTY", "")
    content = _content(answer.choices[0])
    try:
        found = Classification.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise WrongAnswer(
                f"the answer is not JSON: {content[:200]}", "ANSWER_NOT_JSON", content
            ) from None
        path = ".".join(map(str, first["loc"])) or "the answer"
        raise WrongAnswer(
            f"the answer is invalid: {path}: {first['msg']}", "ANSWER_INVALID", content
        ) from None
    if found.category not in {one.name for one in document.classes}:
        raise WrongAnswer(
            f"unknown class {found.category[:100]!r}", "ANSWER_UNKNOWN_CLASS", content
        )
    return found


def _content(choice: Choice) -> str:
    if choice.message.refusal:
        raise WrongAnswer(
            f"refused: {choice.message.refusal[:500]}", "ANSWER_REFUSED", choice.message.refusal
        )
    content = choice.message.content or ""
    if choice.finish_reason == "length":
        raise WrongAnswer("the answer was cut off", "ANSWER_CUT", content)
    if not content.strip():
        raise WrongAnswer("the answer is empty", "ANSWER_EMPTY", content)
    return content


def _of_provider(error: ProviderError) -> Transient | Throttled:
    """OpenRouter answers 200 if a provider fails after the response has begun."""
    if str(error.code) == "429":
        return Throttled(error.message or "rate limited", retry_after=REST_SECONDS, code="HTTP_429")
    return Transient(
        f"the provider failed: {error.message[:500]}",
        code=f"PROVIDER_{str(error.code or 'ERROR')[:50]}",
    )
