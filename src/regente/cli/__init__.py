"""The command line: reads options, calls the engine and prints the result."""

from regente.cli.entry import main

__all__ = ["main"]
