"""Each fast path can be switched off for its measurement: its module, and what is replaced there, exist."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.project import ROOT

APPLY = """
import sys
from importlib import import_module

sys.path.insert(0, sys.argv[1])
from without import WITHOUT, Changes

changes = Changes([*WITHOUT])
sys.meta_path.insert(0, changes)
for pairs in WITHOUT.values():
    for module, _ in pairs:
        import_module(module)
changes.check()
print(len(WITHOUT))
"""


def test_all_fast_paths_can_be_switched_off() -> None:
    for package in ("uvicorn", "httpx2"):
        pytest.importorskip(package)
    command = [sys.executable, "-c", APPLY, ROOT / "benchmarks" / "servers"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 1
