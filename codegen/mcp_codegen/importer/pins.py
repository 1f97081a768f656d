"""pins.toml of a revision: the official files that the normalized schema was made from, and the revision that it
follows."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ..errors import SchemaError


@dataclass(frozen=True, slots=True)
class Pins:
    """The pins of one revision. `sha256` has one digest for each official file, by file name. `follows` is empty for
    the oldest revision. `like` is the revision whose overlay rows apply too, for a draft that was made from it."""

    revision: str
    follows: str
    source: str
    commit: str
    sha256: dict[str, str]
    like: str = ""

    def text(self) -> str:
        """Return the text of the file, as `import` writes it."""
        lines = [
            f"# The sources of the normalized schema of {self.revision}. Written by `mcp-codegen import`; do not edit.",
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
    """Return the pins in a file; raise SchemaError if it is not one."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        pins = Pins(**table)
    except (OSError, ValueError, TypeError) as error:
        raise SchemaError(f"{path}: cannot be read as pins: {error}; import the revision again") from error
    if pins.revision != path.parent.name:
        raise SchemaError(
            f"{path}: pins revision {pins.revision!r}, but is in the folder {path.parent.name!r}; move it or "
            "import the revision again"
        )
    return pins


def digest(data: bytes) -> str:
    """Return the sha256 of a file, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
