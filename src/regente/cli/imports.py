"""Imports the modules that define pipelines, and explains why an import failed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from regente.engine.errors import InvalidInput, RegenteError
from regente.engine.pipeline import registry
from regente.logs import adopt_structlog

ImportsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Module that defines pipelines: dotted name or path to a .py file. May be repeated.",
    ),
]


class ImportFailed(RegenteError):
    code = "IMPORT_FAILED"


def import_pipelines(modules: Sequence[str]) -> None:
    """Import the modules; at least one pipeline must be registered afterwards."""
    if not modules:
        raise InvalidInput(
            "give the module that defines the pipelines: --import MODULE", code="USAGE"
        )
    import_modules(modules)
    if not registry.names:
        names = ", ".join(modules)
        raise InvalidInput(
            f"{names} defines no pipeline: decorate an async function with @pipeline(…)",
            code="NO_PIPELINE",
        )


def import_modules(modules: Sequence[str]) -> None:
    adopt_structlog()
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    for module in modules:
        _import_one(module)


def _import_one(module: str) -> None:
    try:
        if module.endswith(".py") or os.sep in module:
            _import_file(Path(module))
        else:
            importlib.import_module(module)
    except RegenteError:
        raise
    except ModuleNotFoundError as error:
        raise _not_found(module, error) from None
    except SyntaxError as error:
        raise ImportFailed(
            f"{module} has a syntax error: {error.msg} ({error.filename}, line {error.lineno})"
        ) from None
    except (Exception, SystemExit) as error:
        raise ImportFailed(f"{module} failed while it was imported: {_brief(error)}") from None


def _import_file(path: Path) -> ModuleType:
    """Import it by its name, with its folder on `sys.path`, so that isolated steps can, too."""
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}", code="MODULE_NOT_FOUND")
    folder, name = str(path.resolve().parent), path.stem
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = sys.modules.get(name)
    if known is not None:
        if Path(getattr(known, "__file__", None) or "").resolve() != path.resolve():
            raise InvalidInput(
                f"{path} cannot be imported: another module has the name {name!r}. Rename the file."
            )
        return known
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path} is not a Python file", code="MODULE_NOT_FOUND")
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except BaseException:
        del sys.modules[name]
        raise
    return found


def _not_found(module: str, error: ModuleNotFoundError) -> RegenteError:
    missing = error.name or ""
    if module == missing or module.startswith(f"{missing}."):
        place = f"neither in {os.getcwd()} nor among the installed packages"
        return InvalidInput(f"there is no module {missing!r}, {place}", code="MODULE_NOT_FOUND")
    return ImportFailed(f"{module} needs the module {missing!r}, which is not installed")


def _brief(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
