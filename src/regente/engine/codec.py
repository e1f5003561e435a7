"""JSON in and out of the database: strict on the way in, typed on the way out."""

from __future__ import annotations

import inspect
import json
from functools import lru_cache, partial
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, to_jsonable_python

from regente.engine.errors import InvalidArgs, PayloadTooLarge

MAX_ARGS_BYTES = 1024 * 1024
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 200

_SCALARS = (str, int, float, bool, type(None))


def encode(value: Any, *, what: str, max_bytes: int = MAX_OUTPUT_BYTES) -> str:
    """The value as JSON text that PostgreSQL accepts as `jsonb`, or `InvalidArgs` that says why it
    cannot be."""
    try:
        text = _ENCODER.encode(value)
        size_bytes = len(text.encode("utf-8"))
    except RecursionError as error:
        raise InvalidArgs(
            f"{what} cannot be stored as JSON: it is nested too deeply or contains itself"
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidArgs(
            f"{what} contains a lone surrogate, which is not valid Unicode text"
        ) from error
    except (TypeError, ValueError, PydanticSerializationError) as error:
        raise InvalidArgs(f"{what} cannot be stored as JSON: {error}") from error
    if size_bytes > max_bytes:
        raise PayloadTooLarge(
            f"{what} takes {size_bytes:,} bytes as JSON; at most {max_bytes:,} are accepted"
        )
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise InvalidArgs(f"{what} is nested more than {MAX_DEPTH} levels deep")
    if "\\u0000" in text and _has_nul(value):
        raise InvalidArgs(f"{what} contains the character \\u0000, which PostgreSQL cannot store")
    return text


def is_storable(text: str) -> bool:
    """True when PostgreSQL stores it as `text`: no NUL, no lone surrogate."""
    try:
        return "\x00" not in text and bool(text.encode("utf-8") or True)
    except UnicodeEncodeError:
        return False


def _jsonable(value: Any) -> Any:
    return to_jsonable_python(value, inf_nan_mode="constants")


# Made once: `json.dumps` with these options makes a new one at every call.
_ENCODER = json.JSONEncoder(
    default=_jsonable, allow_nan=False, ensure_ascii=False, separators=(",", ":")
)


def _has_nul(value: Any) -> bool:
    # The escape may also be a backslash followed by the letters u0000, which is harmless: look at
    # the strings themselves.
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_has_nul(item) for item in value)
    if isinstance(value, _SCALARS):
        return False
    return _has_nul(to_jsonable_python(value))


def _is_deep(value: Any) -> bool:
    # Level by level over the values: twice as fast as counting brackets outside of quotes in the
    # text.
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for outer in level for item in _containers_in(outer)]
        if not level:
            return False
    return True


def _containers_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [item for item in value.values() if not isinstance(item, _SCALARS)]
    if isinstance(value, list | tuple):
        return [item for item in value if not isinstance(item, _SCALARS)]
    return [] if isinstance(value, _SCALARS) else _containers_in(to_jsonable_python(value))


@lru_cache(maxsize=512)
def adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


@lru_cache(maxsize=512)
def return_hint(function: Any) -> Any:
    """The function's declared return type, so that a replayed step gives back what the first run
    gave; else `Any`."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        # Its hints are wanted, not whether it can be called.
        function = getattr(type(function), "__call__", function)  # noqa: B004
    try:
        hint = get_type_hints(function).get("return", Any)
        adapter(hint)
    except (NameError, TypeError, PydanticUserError):  # what cannot be known, hashed or built
        return Any
    return hint


def decode(text: str | None, hint: Any = Any) -> Any:
    """The value of a JSON text, as an instance of the declared type."""
    if text is None:
        return None
    if isinstance(hint, type):
        if hint is float:
            value = json.loads(text)
            return float(value) if type(value) is int else value
        if hint in _PLAIN:
            return json.loads(text)
    elif hint is Any or hint is None:
        return json.loads(text)
    # As JSON, not as Python values: a strict model takes a date from a text only there.
    return adapter(hint).validate_json(text)


_PLAIN = frozenset({dict, list, str, int, bool, type(None)})


def decode_result(text: str | None, hint: Any, *, what: str) -> Any:
    """A function's result as an instance of the type that it declares, or `InvalidArgs`."""
    try:
        return decode(text, hint)
    except ValidationError as error:
        raise InvalidArgs(f"{what} is not what it is declared as: {_problems(error)}") from error
    except OverflowError as error:
        raise InvalidArgs(f"{what} is not what it is declared as: {error}") from error


class _QuietSchema(GenerateJsonSchema):
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """A default or a choice that JSON has no word for is left out."""


def json_schema(hint: Any) -> str | None:
    """The JSON schema of a declared type, for checks without its code; None when it has none."""
    if hint is dict or hint is Any:
        return None
    try:
        return encode(adapter(hint).json_schema(schema_generator=_QuietSchema), what="the schema")
    except (PydanticInvalidForJsonSchema, PydanticUserError, InvalidArgs):
        return None


def validate(value: Any, hint: Any, *, what: str) -> Any:
    """The value as an instance of the declared type, or `InvalidArgs` naming each field that is
    wrong."""
    try:
        return adapter(hint).validate_python(value)
    except ValidationError as error:
        raise InvalidArgs(f"{what} are not valid: {_problems(error, what)}") from error


def _problems(error: ValidationError, whole: str = "the whole") -> str:
    """Which fields are wrong and why, without their values."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or whole}: {e['msg']}" for e in error.errors())
