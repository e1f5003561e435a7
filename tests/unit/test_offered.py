"""The pipelines that come with Regente, by name."""

from __future__ import annotations

import subprocess
import sys

from regente.pipelines import offered
from regente.pipelines.documents import setup as documents
from regente.pipelines.embeddings import setup as embeddings
from regente.pipelines.missions import setup as missions
from regente.pipelines.quotes import setup as quotes
from regente.pipelines.rounds import setup as rounds


def test_every_pipeline_that_registers_itself_is_offered() -> None:
    """Z9: what `regente run` serves is what is there."""
    known = [
        name for one in (missions, quotes, rounds, embeddings, documents) for name in one.PIPELINES
    ]
    assert sorted(offered.OFFERED) == sorted(known)


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
