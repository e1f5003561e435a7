"""The scopes of a key: tags of the API's resources, as in its document."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from regente.api.access.roles import ALWAYS
from regente.api.openapi import TAGS
from regente.engine.errors import InvalidInput
from regente.pipelines.builtin import Builtin

UNSCOPED = frozenset({"keys", "people"})
"""Resources that only keys without scopes reach: who makes a key could make one without them."""


def known_scopes(builtins: Iterable[Builtin]) -> list[str]:
    tags = {*TAGS, *(tag for one in builtins for tag in one.tags)}
    return sorted(tags - UNSCOPED - ALWAYS)


def checked_scopes(given: Collection[str], builtins: Iterable[Builtin]) -> list[str] | None:
    """The scopes in order; None, a key that reaches everything, if none are given."""
    known = known_scopes(builtins)
    for scope in given:
        if scope not in known:
            raise InvalidInput(f"{scope!r} is not a scope; known: {', '.join(known)}")
    return sorted(set(given)) or None
