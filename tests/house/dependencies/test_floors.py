"""The least versions of the dependencies that pyproject.toml names: the protocol works with them, without a warning."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from support.peers import python_peer
from support.project import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROGRAM = Path(__file__).parent / "with_least_versions.py"


def least(requirements: list[str]) -> list[str]:
    """Return the least version of each package, such as `pydantic==2.12.3`."""
    pins: list[str] = []
    for requirement in map(Requirement, requirements):
        if not requirement.name.startswith(PROJECT["name"]):  # The distributions of this repository.
            (floor,) = [spec.version for spec in requirement.specifier if spec.operator == ">="]
            pins.append(f"{requirement.name}=={floor}")
    return pins


@pytest.mark.long
@pytest.mark.parametrize("extra", ["", "http"])
def test_the_least_versions_serve_every_revision_without_a_warning(extra: str) -> None:
    requirements = [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] if extra else [])]
    python = python_peer(" ".join(least(requirements)))
    path = os.pathsep.join(str(ROOT / name) for name in ("runtime", "products", "generated"))
    command = [str(python), "-W", "error", str(PROGRAM), *([extra] if extra else [])]
    outcome = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.split()[-1] == "served"
