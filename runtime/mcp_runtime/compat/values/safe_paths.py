"""Checks of the paths of files that clients name, as the official SDK has them."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Final

_SEPARATOR: Final = re.compile(r"[/\\]")
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:")


class PathEscapeError(ValueError):
    """A path leaves its folder."""


def contains_path_traversal(value: str) -> bool:
    """Return True if the segments `..` of a relative path leave the folder in which it begins."""
    depth = 0
    for segment in _SEPARATOR.split(value):
        depth += -1 if segment == ".." else segment not in ("", ".")
        if depth < 0:
            return True
    return False


def is_absolute_path(value: str) -> bool:
    """Return True for an absolute path of a POSIX system or of Windows, also if it is only a drive."""
    return _ABSOLUTE.match(value) is not None


def safe_join(base: str | PathLike[str], *parts: str) -> Path:
    """Return the path of a file in a folder, with symbolic links resolved.

    Raises PathEscapeError for a part that is absolute or has a NUL character, and if the path leaves the folder.

    Args:
        base: The folder.
        parts: The parts of the path, such as those that a client has sent.
    """
    root = Path(base).resolve()
    for part in parts:
        if "\0" in part or is_absolute_path(part):
            raise PathEscapeError(f"safe_join(): {part!r} is no relative path")
    path = root.joinpath(*parts).resolve()
    if not path.is_relative_to(root):
        raise PathEscapeError(f"safe_join(): {'/'.join(parts)!r} leaves its folder")
    return path
