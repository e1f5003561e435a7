"""The web console as it is served: files that `console/` is built into. It knows nothing of the API
but its address."""

from __future__ import annotations

from regente.console.serving import Console

__all__ = ["Console"]
