"""Log lines: structlog in front, stdlib `logging` behind, so that the engine's records and the pipelines' own read alike.

Every line is enriched with the task that the code belongs to (see `regente.engine.log.task_fields`). Lines go to stderr:
JSON for machines, aligned text for a terminal. Only the composition root calls this.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from regente.engine.log import task_fields

LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]

# What a scraped page says must not steer the terminal.
ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def configure_logs(
    *, level: LogLevel = "info", log_format: LogFormat | None = None, fields: Mapping[str, Any] | None = None
) -> None:
    """Send every record to stderr. `fields` are for lines that know no better: the runner's name, for threads of its own."""
    as_json = log_format == "json" or (log_format is None and not sys.stderr.isatty())
    shared = _shared_processors(dict(fields or {}), as_json)
    handler = _StderrHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(as_json)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # The pool repeats what the engine says once, in its own words, at every try.
    logging.getLogger("psycopg.pool").setLevel(logging.DEBUG if level == "debug" else logging.ERROR)
    logging.getLogger("httpx2").setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at the time, like the interpreter itself."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """A reader of the log that went away must not end the work."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _shared_processors(fields: dict[str, Any], as_json: bool) -> list[Processor]:
    def add_context(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
        told = line.pop("task_context", {})
        for name, value in (*told.items(), *task_fields().items(), *fields.items()):
            line.setdefault(name, value)
        return line

    return [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        add_context,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
    ]


def _renderers(as_json: bool) -> list[Processor]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )
    return [_printable, renderer]


def _printable(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    return {name: value.translate(ESCAPES) if isinstance(value, str) else value for name, value in line.items()}
