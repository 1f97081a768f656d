"""pins.toml of a revision: which official files our edition was made from, and which revision it follows."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ..errors import SchemaError


@dataclass(frozen=True, slots=True)
class Pins:
    """`sha256` has one digest for each official file, by file name; `follows` is empty for the oldest revision; `like`
    is the revision whose rows of the overlay hold for it too, where it was made from one."""

    revision: str
    follows: str
    source: str
    commit: str
    sha256: dict[str, str]
    like: str = ""

    def text(self) -> str:
        """The file, as `import` writes it."""
        lines = [
            f"# What our edition of {self.revision} was made from. Written by `mcp-codegen import`; do not edit.",
            f'revision = "{self.revision}"',
            f'follows = "{self.follows}"',
            f'source = "{self.source}"',
            f'commit = "{self.commit}"',
            *([f'like = "{self.like}"'] if self.like else []),
            "",
            "[sha256]",
            *(f'"{name}" = "{digest}"' for name, digest in self.sha256.items()),
        ]
        return "\n".join(lines) + "\n"


def read_pins(path: Path) -> Pins:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        pins = Pins(**table)
    except (OSError, ValueError, TypeError) as fault:
        raise SchemaError(f"{path}: cannot be read as pins: {fault}") from fault
    if pins.revision != path.parent.name:
        raise SchemaError(f"{path}: pins revision {pins.revision!r}, but stands in the folder {path.parent.name!r}")
    return pins


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
