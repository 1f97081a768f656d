"""The distributions of this checkout, built once in a run of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.peers import once, run_folder
from support.project import ROOT

# The folder of each distribution.
DISTRIBUTIONS = {"mcp_generated": ".", "mcp_generated_codegen": "codegen", "mcp_generated_extras": "products"}


def built_distributions(factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist of each distribution, and the wheel that was built from it."""

    def build() -> str:
        output = run_folder(factory) / "distributions"
        for folder in DISTRIBUTIONS.values():
            command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(ROOT / folder)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        return str(output)

    return Path(once(factory, "distributions", build))


def wheel_of(folder: Path, name: str = "mcp_generated") -> Path:
    """Return the wheel of a distribution in a folder."""
    return next(folder.glob(f"{name}-*.whl"))
