"""What is costly to make is made once for all test processes of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.peers import locked


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder of this run, the same one in all its processes."""
    folder = factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returns, a JSON value, which the first process that asks makes."""
    file = run_folder(factory) / f"{name}.json"
    with locked(file):
        if not file.exists():
            file.write_text(json.dumps(make()))
    return json.loads(file.read_text())
