"""Changes of the files below folders, by polling: it needs no package and works on network drives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_SUFFIXES: Final = frozenset({".py", ".toml", ".env", ".yaml", ".yml"})
_IGNORED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_MAX_FILES: Final = 20_000  # More would make a round of polling slow.


class FileWatcher:
    """The state of the files below some folders; `changes` compares it with the state before."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._state = self._read()

    def changes(self) -> list[Path]:
        """Return the files that were written, added or removed since the last call, in order."""
        before = self._state
        self._state = self._read()
        return sorted({path for path, _ in before.items() ^ self._state.items()})

    def _read(self) -> dict[Path, tuple[int, int]]:
        state: dict[Path, tuple[int, int]] = {}
        for folder in self._folders:
            for path in _files(folder):
                try:
                    status = path.stat()
                except OSError:
                    continue  # It was removed meanwhile.
                state[path] = (status.st_mtime_ns, status.st_size)
                if len(state) >= _MAX_FILES:
                    return state
        return state


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _IGNORED and not Path(root, name, "pyvenv.cfg").is_file()
        )
        yield from (Path(root, name) for name in sorted(names) if Path(name).suffix in _SUFFIXES or name == ".env")
