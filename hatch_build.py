"""Builds the console with the Python package, so that no built file is committed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent / "scripts"))
import console


class ConsoleHook(BuildHookInterface[Any]):
    """Builds the console into the wheel, unless REGENTE_SKIP_CONSOLE=1."""

    def dependencies(self) -> list[str]:
        return [console.NODE_PACKAGE] if self._to_build() and not console.has_node() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if self._to_build():
            self.app.display_info("building the console")
            try:
                console.build()
            except console.CannotBuild as error:
                raise SystemExit(str(error)) from None
        build_data["artifacts"].append("src/regente/console/static/")

    def _to_build(self) -> bool:
        return os.environ.get("REGENTE_SKIP_CONSOLE") != "1" and console.needed()
