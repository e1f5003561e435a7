"""A guard that no test needs is not proven: each is removed alone, and a probe must fail."""

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
    """One database for the module: every probe begins with empty tables."""
    with clean_database(server_url, template) as url, engine_on(url) as opened:
        yield opened


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_all_probes_pass_on_the_unchanged_engine(probe: Probe, engine: Engine) -> None:
    """The control: a probe that fails here proves nothing about a mutant."""
    engine.empty()
    probe(engine)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_probe_fails_without_this_guard(
    mutant: Mutant, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2 to I9: fence, owner, state, lease, idempotency, counting."""
    mutated = mutant.applied_to(queries.engine_queries())
    monkeypatch.setattr(queries, "engine_queries", lambda: mutated)
    assert any(goes_red(probe, engine) for probe in PROBES), (
        f"no probe fails without the guard: {mutant.name}"
    )


def goes_red(probe: Probe, engine: Engine) -> bool:
    engine.empty()
    try:
        probe(engine)
    except RED:
        return True
    return False
