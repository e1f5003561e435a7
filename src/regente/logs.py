"""Formats every `logging` record as one line, from the engine and from pipelines.

Every line gets the fields of the current task (`regente.engine.log.task_fields`). Lines go to
stderr: JSON for machines, text for a terminal. What looks like a secret is hidden. Only the
composition root calls this.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import textwrap
import time
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from regente.engine.log import current_task, task_fields
from regente.redaction import redacted, redacted_text

LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]

# Control characters of a scraped page must not reach the terminal, nor what ends or turns a line.
ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
} | {code: f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))}

_STANDARD_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_COLOURS = {"debug": 2, "info": 32, "warning": 33, "error": 31, "critical": 31}


def configure_logs(
    *,
    level: LogLevel = "info",
    log_format: LogFormat | None = None,
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Send every record to stderr; `fields` are defaults, such as the runner's name."""
    as_json = log_format == "json" or (log_format is None and not sys.stderr.isatty())
    handler = _StderrHandler()
    handler.setFormatter((_JsonFormatter if as_json else _TextFormatter)(dict(fields or {})))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # The pool logs at every try what the engine logs once.
    logging.getLogger("psycopg.pool").setLevel(logging.DEBUG if level == "debug" else logging.ERROR)
    logging.getLogger("httpx2").setLevel(logging.DEBUG if level == "debug" else logging.WARNING)


def adopt_structlog() -> None:
    """Route structlog, where it is installed, through the standard `logging`."""
    if importlib.util.find_spec("structlog") is None:
        return
    import structlog

    def as_record(_: object, __: str, line: MutableMapping[str, Any]) -> dict[str, Any]:
        exception_fields = {
            name: line.pop(name) for name in ("exc_info", "stack_info") if name in line
        }
        return {
            "msg": line.pop("event", ""),
            "extra": {"task_context": dict(line)},
            **exception_fields,
        }

    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.PositionalArgumentsFormatter(),
            as_record,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, like the interpreter."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore a closed stderr, so that a lost log reader does not end the work."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class _LineFormatter(logging.Formatter):
    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__()
        self._fields = fields

    def _fields_of(self, record: logging.LogRecord) -> dict[str, Any]:
        """Merge the fields of the process, the task and the record; later ones win."""
        own = {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        context = own.pop("task_context", {})
        if record.stack_info:
            own["stack"] = record.stack_info
        if record.exc_info:
            own["exception"] = self.formatException(record.exc_info)
        shown: dict[str, Any] = redacted({**self._fields, **task_fields(), **context, **own})
        return shown


class _JsonFormatter(_LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        standard = {
            "event": redacted_text(record.getMessage()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="microseconds")
            .replace("+00:00", "Z"),
        }
        fields = self._fields_of(record)
        return json.dumps(standard | _job_fields(fields) | fields | standard, default=str)


def _job_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of every line about a task, with the original specification's names."""
    if "task" not in fields:
        return {}
    duration_ms = fields.get("duration_ms")
    task = current_task.get()
    if duration_ms is None and task is not None and task.id == fields["task"]:
        duration_ms = round(task.running_seconds * 1000, 1)
    return {
        "workerId": fields.get("runner"),
        "jobId": fields["task"],
        "jobType": fields.get("pipeline"),
        "attempts": fields.get("attempt"),
        "status": "running",
        "durationMs": duration_ms,
    }


class _TextFormatter(_LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields_of(record)
        tracebacks = [str(fields.pop(name)) for name in ("stack", "exception") if fields.get(name)]
        context = [f"{name}={_quoted(value)}" for name, value in fields.items()]
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = record.levelname.lower()
        message = redacted_text(record.getMessage()).replace("\r", "\\r").replace("\n", "\\n")
        first = " ".join([message, *context])
        below = [textwrap.indent(one, "  ", lambda _: True) for one in tracebacks]
        text = "\n".join([first, *below]).translate(ESCAPES)
        if sys.stderr.isatty():
            return f"\x1b[2m{clock}\x1b[0m \x1b[{_COLOURS.get(level, 0)}m{level:<8}\x1b[0m {text}"
        return f"{clock} {level:<8} {text}"


def _quoted(value: object) -> str:
    return (
        value
        if isinstance(value, str) and value.isprintable() and value and " " not in value
        else repr(value)
    )
