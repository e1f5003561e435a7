"""A guard that no test needs is not proven: each is taken out alone, and the probes must notice."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from regente.engine import queries
from regente.engine.errors import ControlFlow, RegenteError
from tests.engine.model.engine import Engine, engine_on
from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.probes import PROBES, Probe
from tests.support.clean_database import clean_database

RED = (
    AssertionError,
    RegenteError,
    ControlFlow,
    psycopg.Error,
    KeyError,
    ValueError,
    pytest.fail.Exception,
)


@pytest.fixture(scope="module")
def engine(server_url: str, template: str) -> Iterator[Engine]:
    """One for the module: every probe begins with empty tables."""
    with clean_database(server_url, template) as url, engine_on(url) as opened:
        yield opened


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_the_engine_as_it_is_passes(probe: Probe, engine: Engine) -> None:
    """What notices a mutant must have nothing to say against the original."""
    engine.empty()
    probe(engine)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_without_this_guard_a_probe_goes_red(
    mutant: Mutant, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2 to I9: fence, owner, state, lease, idempotency, counting."""
    mutated = mutant.applied_to(queries.engine_queries())
    monkeypatch.setattr(queries, "engine_queries", lambda: mutated)
    assert any(goes_red(probe, engine) for probe in PROBES), (
        f"nobody misses the guard: {mutant.name}"
    )


def goes_red(probe: Probe, engine: Engine) -> bool:
    engine.empty()
    try:
        probe(engine)
    except RED:
        return True
    return False
