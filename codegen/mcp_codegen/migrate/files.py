"""The files of a project, without its environments, its builds and what links lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = frozenset(
    ".git .hg .venv venv env .tox .nox .eggs .mypy_cache .ruff_cache .pytest_cache __pycache__ build dist node_modules"
    " site-packages".split()
)


def python_files(folder: Path) -> list[Path]:
    """Return the Python sources below a folder."""
    return sorted(path for path in files_below(folder) if path.suffix == ".py")


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if name not in _LEFT_OUT and not Path(parent, name, "pyvenv.cfg").exists()
        ]
        for path in (Path(parent, name) for name in names):
            if path.is_file() and not path.is_symlink():
                yield path
