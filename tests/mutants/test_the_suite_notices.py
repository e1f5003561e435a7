"""The same guards, removed under the ordinary tests: some test fails each time (`make mutants`)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.support.runner_process import ROOT

# Faults of machines and networks, which no guard in SQL answers.
APART = ("clock_skew", "full_disks", "partitions", "used_up_connections")
SELECTION = (
    "tests/engine/test_fence.py",  # finds most of them, and quickly
    "tests/engine/test_sleep.py",  # where sleeps are forgotten, others do not end
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/engine/test_*.py")),
    *sorted(
        str(path.relative_to(ROOT))
        for path in ROOT.glob("tests/engine/faults/test_*.py")
        if path.stem.removeprefix("test_") not in APART
    ),
    "tests/engine/faults/crashes/test_lost_answers.py",
    "tests/engine/faults/crashes/test_zombies.py",
    "tests/engine/model/test_state_machine.py",  # takes its time to find the smallest example
)
TESTS_FAILED = 1


@pytest.mark.mutants
@pytest.mark.timeout(600)
def test_the_suite_passes_with_every_guard(server_url: str) -> None:
    """The control: a failing suite would prove nothing."""
    done = run_suite(server_url)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.mutants
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_suite_fails_without_this_guard(mutant: Mutant, server_url: str) -> None:
    """I2 to I9."""
    done = run_suite(server_url, mutant)
    assert done.returncode == TESTS_FAILED, (
        f"{mutant.name}: exit {done.returncode}\n{done.stdout[-2000:]}"
    )


def run_suite(server_url: str, mutant: Mutant | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--timeout", "60", *SELECTION]
    environment = os.environ | {"REGENTE_TEST_DATABASE_URL": server_url}
    if mutant is not None:
        command += ["-p", "tests.mutants.plugin"]
        environment |= {"REGENTE_TEST_MUTANT": mutant.name}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
