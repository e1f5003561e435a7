"""The pipelines that come with Regente, by their descriptors."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from regente import InvalidInput, Regente
from regente.engine.pipeline import Registry
from regente.pipelines.builtins import builtins, switched_on
from regente.settings import Settings


async def test_each_registers_the_pipelines_that_its_descriptor_names() -> None:
    """Z9: what `regente run` serves is what is there."""
    for one in builtins():
        app = Regente("postgresql://nowhere", pipelines=Registry())
        app.conduct(list(one.pipelines[:1]))
        assert app.registry.names == sorted(one.pipelines)


def test_no_two_have_a_pipeline_a_command_or_a_tag_in_common() -> None:
    names = Counter(
        name
        for one in builtins()
        for name in ({("pipeline", name) for name in one.pipelines})
        | {("command", name) for name in one.commands}
        | {("tag", name) for name in one.tags}
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_setting_names_those_that_are_on() -> None:
    assert [one.name for one in switched_on("quotes, missions")] == ["missions", "quotes"]
    assert switched_on("all") == builtins()
    assert switched_on("none") == []
    with pytest.raises(InvalidInput, match="quotas"):
        switched_on("quotas")


def test_one_that_is_switched_off_is_not_run() -> None:
    settings = Settings(builtins="quotes")
    app = Regente("postgresql://nowhere", settings=settings, pipelines=Registry())
    with pytest.raises(InvalidInput, match="rounds is disabled"):
        app.conduct(["matches"])
    with pytest.raises(InvalidInput, match="rounds is disabled"):
        Regente("postgresql://nowhere", settings=settings, components=["rounds"])


def test_a_runner_of_one_pipeline_does_not_load_the_others() -> None:
    """Q8: each brings its own libraries along."""
    program = """
import sys
from regente import Regente
from regente.engine.pipeline import Registry
app = Regente("postgresql://nowhere", pipelines=Registry())
app.conduct(["rounds"])
assert app.registry.names == ["matches", "rounds"], app.registry.names
heavy = ("price_parser", "pypdfium2", "numpy", "fastapi")
assert not [name for name in heavy if name in sys.modules]
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
