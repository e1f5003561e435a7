"""The command line: the composition root. Thin: it reads what it is given, asks the engine and
shows the answer."""

from regente.cli.entry import main

__all__ = ["main"]
