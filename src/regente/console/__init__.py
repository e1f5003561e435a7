"""Serves the built web console. It knows only the API's path."""

from __future__ import annotations

from regente.console.serving import Console

__all__ = ["Console"]
