"""The text of a step's call: equal texts mean equal calls, in every process and at every attempt.

It holds the function's qualified name and its arguments as JSON with sorted keys. Plain values that
a lambda or local function takes from the code around it count as arguments. A lambda, which has no
name of its own, counts by what its code names. What has no content that could be compared (a
client, a task, a lock) counts by the name of its type.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache, partial
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel

from regente.engine.codec import return_hint
from regente.engine.outcome import storable

MAX_CHARACTERS = 500
SHOWN_CHARACTERS = 400
LAMBDA = "<lambda>"

_BYTES = (bytes, bytearray, memoryview)
_TEXTUAL = (Decimal, UUID, PurePath, IPv4Address, IPv6Address, timedelta, range, slice, complex)
_PLAIN = (str, int, float, bytes, Enum, date, time, *_TEXTUAL)
_VALUES = (str, int, float, list, tuple, dict, set, frozenset, Enum, date, time, *_BYTES, *_TEXTUAL)

_OPERATORS = {"BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_NOT", "IS_OP", "CONTAINS_OP"}
_LOADS_NAME = {code for code in (*dis.hasname, *dis.hasfree) if "LOAD" in dis.opname[code]}
_LOADS_CONSTANT = {*dis.hasconst, dis.opmap.get("LOAD_SMALL_INT", -1)}


class StepCall(NamedTuple):
    """What a step calls, and the type of its result."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    aliases: Sequence[str]
    """Earlier names of the step and of its function, and texts of its earlier calls."""
    hint: Any

    @property
    def text(self) -> str:
        return call_text(self.function, self.args, self.kwargs)

    def with_item(self, item: Any) -> StepCall:
        """The call for one item of a loop."""
        return self._replace(args=(item,))

    def is_recorded_as(self, text: str) -> bool:
        """True for the text of this call, also under an earlier name of its function, and for a
        text that is itself an alias."""
        return text == self.text or any(
            text in (alias, call_text(self.function, self.args, self.kwargs, name=alias))
            for alias in self.aliases
        )


def step_call(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    aliases: Sequence[str] = (),
) -> StepCall:
    return StepCall(function, args, kwargs, aliases, return_hint(function))


def call_text(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    name: str | None = None,
) -> str:
    """The call in at most `MAX_CHARACTERS`; a longer one ends with a hash of the whole. `name` is
    used in place of the function's own."""
    while isinstance(function, partial):
        args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
        function = function.func
    owner = _owner(function)
    if owner is not None and _is_value(owner):
        args = (owner, *args)
    described = [_encoded(list(args))[1:-1]] if args else []
    described += [f"{key}={_encoded(kwargs[key])}" for key in sorted(kwargs)]
    if inspect.isfunction(function):
        described += _told_by_code(function)
    text = f"{name or _name_of(function, owner)}({', '.join(described)})"
    if not text.isascii():
        text = storable(text)
    if len(text) <= MAX_CHARACTERS:
        return text
    digest = sha256(text.encode("utf-8")).hexdigest()[:32]
    return f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters, sha256 {digest})"


def _told_by_code(function: FunctionType) -> list[str]:
    """What tells a lambda or local function from others of the same qualified name."""
    code = function.__code__
    told = _captured(function) if code.co_flags & inspect.CO_NESTED else []
    if function.__name__ == LAMBDA:
        told.append(f"code: {_words_of(code)}")
    return told


@lru_cache(maxsize=512)
def _words_of(code: CodeType) -> str:
    """The names, constants and operators of a lambda's code, in their order."""
    words: list[str] = []
    for one in dis.get_instructions(code):
        value = code.co_consts[one.arg or 0] if one.opcode in dis.hasconst else one.argval
        if isinstance(value, CodeType):
            words.append(f"({_words_of(value)})")
        elif one.opname in _OPERATORS:
            words.append(one.argrepr or one.opname)
        elif one.opcode in _LOADS_NAME:
            words.append(value)
        elif one.opcode in _LOADS_CONSTANT and value is not None:
            words.append(_encoded(value))
    return " ".join(words)


def _captured(function: FunctionType) -> list[str]:
    """The plain values that a lambda or local function takes from the code around it, as in
    `lambda: price(name)` and `lambda name=name: price(name)`. Not what can change in place or what
    the function sets itself: a replay does not call it."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    found = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    found |= function.__kwdefaults__ or {}
    closure = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    for name in closure.keys() - _set_by(code):
        with contextlib.suppress(ValueError):  # not set yet
            found[name] = closure[name].cell_contents
    return [f"{name}: {_encoded(found[name])}" for name in sorted(found) if _is_plain(found[name])]


@lru_cache(maxsize=512)
def _set_by(code: CodeType) -> frozenset[str]:
    """The variables of the code around it that the function sets."""
    return frozenset(
        str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_DEREF"
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_plain, value))
    if inspect.isfunction(value):
        return value.__name__ != LAMBDA  # which may have captured itself
    return isinstance(value, _PLAIN) or _is_frozen(value)


def _owner(function: Any) -> Any:
    """The object whose method it is, or the callable object itself; None for a plain function."""
    if inspect.isfunction(function) or inspect.isclass(function):
        return None
    owner = getattr(function, "__self__", None)
    if inspect.ismodule(owner):
        return None
    return function if owner is None and not inspect.isroutine(function) else owner


def _name_of(function: Any, owner: Any) -> str:
    # Without the module: it is `__main__` where the file is run and another name where it is
    # imported.
    if owner is None:
        return str(function.__qualname__)
    kind = owner if inspect.isclass(owner) else type(owner)
    if owner is function:
        return str(kind.__qualname__)
    return f"{kind.__qualname__}.{function.__name__}"


def _is_value(owner: Any) -> bool:
    """True for an object that is its content. Services that hold state count by their type."""
    return isinstance(owner, _VALUES) or _is_frozen(owner)


def _is_frozen(value: Any) -> bool:
    """True for a model or dataclass that cannot change."""
    if isinstance(value, BaseModel):
        return bool(value.model_config.get("frozen"))
    if is_dataclass(value) and not inspect.isclass(value):
        return bool(value.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return False


def _encoded(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except Exception:
        # Keys that JSON does not have or that do not sort, a loop, an object that fails.
        if isinstance(value, list):
            return f"[{', '.join(map(_encoded_alone, value))}]"
        return _encoded_alone(value)


def _encoded_alone(value: Any) -> str:
    try:
        return _ENCODER.encode(_with_text_keys(value))
    except Exception:
        return json.dumps(_opaque(value))


def _with_text_keys(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else _encoded(key): _with_text_keys(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_text_keys(item) for item in value]
    return _with_text_keys(_plain(value))


def _plain(value: Any) -> Any:
    """Convert a value that JSON has no type for to one that it has."""
    if isinstance(value, _TEXTUAL):
        return str(value)
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, date | time | datetime):
        return value.isoformat()
    if isinstance(value, _BYTES):
        return f"{len(value)} bytes, sha256 {sha256(value).hexdigest()[:32]}"
    return _content(value)


def _content(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value, key=_encoded)  # their own order differs between processes
    if isinstance(value, BaseModel):
        return dict(value)
    if getattr(value, "__name__", None) == LAMBDA:
        return call_text(value, (), {})
    if inspect.isclass(value) or inspect.isroutine(value):
        return _name_of(value, None if inspect.isclass(value) else _owner(value))
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
    if isinstance(value, partial):
        return call_text(value, (), {})
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, deque):
        return list(value)
    return _compared(value) or _opaque(value)


def _compared(value: Any) -> Any:
    """What an object of another kind compares when it is asked whether it equals another one:
    the items of an array, or its attributes."""
    with contextlib.suppress(TypeError, ValueError, BufferError), memoryview(value) as items:
        return [items.format, items.shape, sha256(items).hexdigest()[:32]]
    if getattr(type(value), "__eq__", None) is object.__eq__:
        return None
    names = {*getattr(value, "__dict__", {})}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else {*slots}
    return {name: getattr(value, name) for name in names if _is_compared(value, name)}


def _is_compared(value: Any, name: str) -> bool:
    """Not what is private, as the text of a `SecretStr`, nor what is kept to compute it once."""
    if name.startswith("_") or isinstance(getattr(type(value), name, None), cached_property):
        return False
    return hasattr(value, name)


def _opaque(value: Any) -> str:
    return f"<{type(value).__qualname__}>"


# Made once: `json.dumps` with these options makes a new one at every call.
_ENCODER = json.JSONEncoder(
    default=_plain, ensure_ascii=False, sort_keys=True, separators=(", ", ": ")
)
