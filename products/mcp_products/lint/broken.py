"""Why a server does not start or does not answer: the line of its output that says it, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath
from typing import Final

from .snapshot import Snapshot

# Lines of standard error that say where and not what: of Python, Node, Go and Rust, and the link below our errors.
_NO_REASON: Final = re.compile(
    r"Traceback|File |at |\^|~|[{}\[\]]|code: |requireStack|Node\.js v|node:|throw |see https?://|goroutine |"
    r"exit status |note: run with|npm (ERR!|error) A complete log|During handling of|The above exception"
)
_REASON: Final = re.compile(r"(?:^|\s|\])(?:[\w.]*(?:Error|Exception)|error|fatal|panic)\b[^:]{0,40}: *\S", re.I)
_PANIC: Final = "panicked at "  # Rust has the reason on the next line.
_MAX: Final = 300

_BY_SUFFIX: Final = {
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".ts": "npx tsx",
    ".py": "python",
    ".jar": "java -jar",
}
_TERMINAL: Final = "start the command in a terminal: its error output says why"
# What to do, by what is said. The first that fits counts.
_REMEDIES: Final = (
    (r"HTTP 40[13]", "pass what the server wants: --header 'Authorization: Bearer …'"),
    (r"it has moved to", "pass the address that it names"),
    (r"HTTP 4\d\d|is not a message", "pass the address of the endpoint itself; often its path is /mcp"),
    (r"HTTP 5\d\d", "read the log of the server: it has failed"),
    (r"refused|unreachable|Name or service|nodename|resolution", "start the server at this address, or pass another"),
    (r"its own request", "pass the command of a server: this program writes back what it reads"),
    (r"No module named", "pass the Python that has the packages of the server: -- .venv/bin/python server.py"),
    (r"Cannot find module", "build the project first, and pass the file that the build has written"),
    (r"no answer to initialize", "let it answer on standard output; a server over HTTP is named by its URL"),
    (r"no answer to", "--timeout waits longer; else its handler does not return"),
    (r"without end", "pass the command of a server, whose standard output has messages alone"),
    (r"exit code 0\b", "let the program serve until its input ends: it has done its work and is gone"),
)  # fmt: skip


def reason_of(lines: Sequence[str]) -> str:
    """Return the line of an error output that says what has failed: not the last one in every language."""
    for number, line in enumerate(lines):
        if _PANIC in line:
            return " ".join(lines[number : number + 2])[:_MAX]
    told = [line for line in lines if not _NO_REASON.match(line)]
    named = [line for line in told if _REASON.search(line)]
    return (named or told or [""])[-1][:_MAX]


def remedy_of(snapshot: Snapshot) -> str:
    """Return what to do about a server that does not start or answer."""
    if "No such file" in snapshot.broken or "Permission denied" in snapshot.broken:
        return _of_command(snapshot.command)
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, snapshot.broken):
            return remedy
    return _TERMINAL


def _of_command(command: Sequence[str]) -> str:
    word = command[0] if command else ""
    if runner := _BY_SUFFIX.get(PureWindowsPath(word).suffix):
        return f"pass the program that runs it: -- {runner} {word}"
    if Path(word).is_dir():
        return "pass the file of the server in this folder, or -- and the command that starts it"
    if Path(word).is_file():
        return f"let it be executed: chmod +x {word}"
    return "install this program, or pass its whole path"
