"""What `lint --fix` writes: what the lint process proposes, and changes of Python sources where libcst is installed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ..errors import CodegenError
from .files import python_files
from .report import Edited
from .writing import refuse_changed, write

_NO_LIBCST: Final = "Python sources stay as they are: pip install 'mcp-generated[migrate]'"


def fix(proposal: Mapping[str, Any], force: bool) -> list[str]:
    """Write what is certain, each file in one step, and return a line for each change and for each that is left.

    Args:
        proposal: What the lint process has found: edits of files, and what is wrong with each server.
        force: Whether files are written that git says have changes.

    Raises CodegenError for such files, and OutputError for a link and for a file that cannot be written.
    """
    texts: dict[Path, bytes] = {}
    lines: list[str] = []
    for edit in proposal["edits"]:
        path = Path(edit["path"])
        texts[path] = edit["text"].encode()
        lines.append(f"fixed {path.name}:{edit['line']} {edit['code']}: {edit['change']}")
    for server in proposal["servers"]:
        if server["source"]:
            lines += _sources(server, texts)
    files = [Edited(path, path.read_bytes(), data) for path, data in texts.items()]
    if not force:
        for folder in sorted({file.path.parent for file in files}):
            refuse_changed([file for file in files if file.path.parent == folder], folder)
    write(files)
    return lines


def _sources(server: Mapping[str, Any], texts: dict[Path, bytes]) -> list[str]:
    """Add the changed Python files of one server to `texts`, and return the lines of the report."""
    wrong = ("refused", "noise", "bare")
    try:
        fixes: Any = import_module(".python_fixes", __package__)
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        return [_NO_LIBCST] if any(server[key] for key in wrong) else []
    folder = Path(server["source"]).parent
    wanted = fixes.Wanted(
        tuple(server["refused"]), frozenset(server["names"]), server["noise"], frozenset(server["bare"])
    )
    found = fixes.fixed_sources(python_files(folder), wanted)
    texts.update(found.texts)
    changed = [
        f"fixed {item.path.relative_to(folder).as_posix()}:{item.line} {item.code}: {item.before} → {item.after}"
        for item in found.changes
    ]
    return [*changed, *found.left]


def proposal_of(command: Sequence[str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the lint process would change. Raises CodegenError if it fails."""
    done = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, check=False)
    if done.returncode or not done.stdout:
        raise CodegenError(done.stderr.decode("utf-8", "replace").strip() or "lint has ended without an answer")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
