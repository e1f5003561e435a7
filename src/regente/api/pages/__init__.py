"""The sign-in page and the documentation page, without inline scripts or styles."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import Response

_FOLDER = Path(__file__).parent
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
NAMES = frozenset(path.name for path in _FOLDER.iterdir() if path.suffix in _TYPES)


def page(name: str) -> Response:
    path = _FOLDER / name
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])
