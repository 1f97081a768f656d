"""Write the tags of tags.toml into the specification's schema.ts, and their names into its TypeDoc configuration.

    python docs/upstream/tag.py CHECKOUT [--version draft]

CHECKOUT is a checkout of the specification's repository, which is changed: `git diff -U0` is specification.patch.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

TAGS: Final = Path(__file__).with_name("tags.toml")
_DECLARED: Final = r"export (?:interface|type|const) {}\b"
_LISTED: Final = "  excludeTags: ["


def tagged(text: str, tags: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Return the text of a schema.ts with the tags. Raises SystemExit for a place that it does not have."""
    lines = text.split("\n")
    for places in tags.values():
        for place, written in places.items():
            line = _line_of(lines, place)
            indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
            above = lines[line - 1]
            opening = next((text.strip() for text in reversed(lines[:line]) if text.strip().startswith("/*")), "")
            if not above.endswith("*/") or not opening.startswith("/**"):  # `/*` begins no JSDoc.
                lines[line:line] = _block(indent, written)
            elif above.strip() == "*/":
                lines[line - 1 : line - 1] = [f"{indent} * {tag}" for tag in written]
            else:
                sentence = above.strip().removeprefix("/**").removesuffix("*/").strip()
                lines[line - 1 : line] = _block(indent, [sentence, *written])
    return "\n".join(lines)


def _block(indent: str, texts: Sequence[str]) -> list[str]:
    """Return a block of JSDoc, of one line for one text."""
    if len(texts) == 1:
        return [f"{indent}/** {texts[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {text}" for text in texts), f"{indent} */"]


def _line_of(lines: Sequence[str], place: str) -> int:
    """Return the line on which a declaration, or a property of one, begins."""
    name, *wires = place.split(".")
    line = _find(lines, 0, len(lines), _DECLARED.format(name), place)
    for depth, wire in enumerate(wires, start=1):
        end = _find(lines, line, len(lines), " " * (2 * depth - 2) + "}", place)
        line = _find(lines, line, end, " " * (2 * depth) + rf"{wire}\??:", place)
    return line


def _find(lines: Sequence[str], start: int, end: int, pattern: str, place: str) -> int:
    for line in range(start, end):
        if re.match(pattern, lines[line]):
            return line
    raise SystemExit(f"schema.ts has no {place}; correct tags.toml")


def main() -> None:
    """Tag the files of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--version", default="draft")
    given = parser.parse_args()
    tags = tomllib.loads(TAGS.read_text(encoding="utf-8"))
    schema = given.checkout / "schema" / given.version / "schema.ts"
    schema.write_text(tagged(schema.read_text(encoding="utf-8"), tags), encoding="utf-8")
    config = given.checkout / "typedoc.config.mjs"
    names = sorted({tag.split()[0] for places in tags.values() for written in places.values() for tag in written})
    listed = "".join(f'\n    "{name}",' for name in names)
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace(_LISTED, _LISTED + listed), encoding="utf-8")


if __name__ == "__main__":
    main()
