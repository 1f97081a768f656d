"""A repository with one release, imported and generated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.schemas.histories import History, places, prepare


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One release, imported and generated, of a repository whose draft is the same."""
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def history(prepared: Path, tmp_path: Path) -> History:
    """A copy of it."""
    return places(shutil.copytree(prepared, tmp_path / "history"))
