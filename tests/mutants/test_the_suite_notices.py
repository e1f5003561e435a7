"""The same guards, taken out under the ordinary tests: the suite goes red each time. Minutes: `make mutants`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.support.runner_process import ROOT

SELECTION = (
    "tests/model/test_state_machine.py",
    "tests/crashes/test_lost_answers.py",
    "tests/crashes/test_zombies.py",
    "tests/engine",
)
TESTS_FAILED = 1


@pytest.mark.mutants
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_suite_goes_red_without_this_guard(mutant: Mutant, server_url: str) -> None:
    """I2 to I9."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.mutants.plugin", "--timeout", "60", *SELECTION]
    environment = {"REGENTE_TEST_MUTANT": mutant.name, "REGENTE_TEST_DATABASE_URL": server_url}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == TESTS_FAILED, f"{mutant.name}: exit {done.returncode}\n{done.stdout[-2000:]}"
