"""Load environment variables, such as the key of a model's API, from a file `.env`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_LINE: Final = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*
    (?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>[^#\s](?:[^#]|(?<!\s)\#)*)?)\s*(?:\#.*)?""",
    re.VERBOSE,
)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def load_env_file(folder: Path) -> Path | None:
    """Set the variables of the nearest `.env`, in this folder or above, that are not set. Return its path, if any.

    Raises ValueError with a one-line message for a line that is not an assignment.
    """
    path = next((path for one in (folder, *folder.parents) if (path := one / ".env").is_file()), None)
    if path is None:
        return None
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{str(path)!r}, line {number}, is not NAME=value")
        os.environ.setdefault(match["name"], _value(match))
    return path


def _value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r"\\(.)", lambda escaped: _ESCAPED.get(escaped[1], escaped[1]), match["double"])
    return match["single"] if match["single"] is not None else (match["plain"] or "").rstrip()
