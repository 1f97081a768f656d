"""What a migration did: changes by kind, and marks with their place and their reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

DOCUMENTATION: Final = "https://mcp-codegen.example/docs/migrate.html"
MARK: Final = "# mcp-generated: "


@dataclass(frozen=True, slots=True)
class Mark:
    """A place that a person decides: its line in the file as it was, the reason, and a heading of docs/migrate.md."""

    line: int
    reason: str
    link: str = "by-hand"

    @property
    def comment(self) -> str:
        """The comment before the line."""
        return f"{MARK}{self.reason} {DOCUMENTATION}#{self.link}"


@dataclass(slots=True)
class Edited:
    """One file: its bytes before and after, how often each kind of change was made, and its marks.

    `is_commented` is False for a file that cannot have comments, such as JSON and lock files.
    """

    path: Path
    before: bytes
    after: bytes
    changes: Counter[str] = field(default_factory=Counter[str])
    marks: list[Mark] = field(default_factory=list[Mark])
    error: str = ""
    is_commented: bool = True

    @property
    def is_changed(self) -> bool:
        """True if there is something to write."""
        return self.after != self.before


def summary(files: Sequence[Edited], root: Path) -> dict[str, Any]:
    """Return the report as JSON."""
    changes: Counter[str] = Counter()
    for file in files:
        changes.update(file.changes)
    return {
        "files": [
            {
                "path": relative(file.path, root),
                "changed": file.is_changed,
                "changes": dict(sorted(file.changes.items())),
                "marks": [{"line": mark.line, "reason": mark.reason, "link": _link(mark)} for mark in file.marks],
                **({"error": file.error} if file.error else {}),
            }
            for file in files
            if file.is_changed or file.marks or file.error
        ],
        "counts": {
            "files": len(files),
            "changed": sum(file.is_changed for file in files),
            "marks": sum(len(file.marks) for file in files),
            "errors": sum(bool(file.error) for file in files),
            "changes": dict(sorted(changes.items())),
        },
    }


def lines_of(files: Sequence[Edited], root: Path) -> list[str]:
    """Return the report as text: marks and files that were not read first, counts last."""
    lines: list[str] = []
    for file in files:
        name = relative(file.path, root)
        if file.error:
            lines.append(f"{name}: not changed: {file.error}")
        lines += [f"{name}:{mark.line}: {mark.reason}" for mark in file.marks]
    counts = summary(files, root)["counts"]
    changed, marks = counts["changed"], counts["marks"]
    kinds = ", ".join(f"{kind} {number}" for kind, number in counts["changes"].items())
    lines.append(
        f"{_count(len(files), 'file')} read, {changed} to change"
        + (f" ({kinds})" if kinds else "")
        + f"; {_count(marks, 'mark')} to decide by hand"
    )
    if any(file.marks for file in files):
        lines.append(f"{DOCUMENTATION}#by-hand says what each mark asks for")
    return lines


def relative(path: Path, root: Path) -> str:
    """Return a path below a root, with slashes."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _link(mark: Mark) -> str:
    return f"{DOCUMENTATION}#{mark.link}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
