"""What `--fix` writes: changes of a project's files that are certain, and no others.

A requirement gets its upper bound, a configuration the key that its host reads, server.json the version of the server,
and the README the line that proves who owns the name. A name of a tool is nobody's to change but its author's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from .findings import Finding
from .snapshot import Snapshot, is_object, text_of

_KEYS: Final = {
    ("gemini-cli", "url"): "httpUrl",
    ("windsurf", "url"): "serverUrl",
    ("vscode-copilot", "mcpServers"): "servers",
}


@dataclass(frozen=True, slots=True)
class Fix:
    """A file, its new text, what has changed in it, the line in the new text, and the code of the rule."""

    path: Path
    text: str
    change: str
    line: int = 0
    code: str = ""


def fixes_of(snapshot: Snapshot, findings: list[Finding], folder: Path | None) -> Iterator[Fix]:
    """Yield the certain changes, each from the text that the one before has left. Nothing is written."""
    texts: dict[Path, str] = {}
    for finding in findings:
        fix = _FIXES.get(finding.rule.name)
        for done in fix(snapshot, finding, folder, texts) if fix is not None else ():
            if done.text != (before := texts[done.path]):
                texts[done.path] = done.text
                yield replace(done, line=_first_changed(before, done.text), code=finding.rule.code)


def _first_changed(before: str, after: str) -> int:
    """Return the number of the first line that differs."""
    pairs = zip_longest(before.splitlines(), after.splitlines())
    return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), 1)


def _read(path: Path, texts: dict[Path, str]) -> str:
    if path not in texts:
        texts[path] = path.read_text(encoding="utf-8")
    return texts[path]


def _bound(snapshot: Snapshot, finding: Finding, folder: Path | None, texts: dict[Path, str]) -> Iterator[Fix]:
    if folder is None:
        return
    path = folder / finding.place
    before = finding.message.removesuffix(" has no upper bound")
    extras = re.match(r"[A-Za-z0-9._-]+(\[[^\]]*\])?", before)
    name = extras[0] if extras is not None else before
    after = re.sub(r"^[A-Za-z0-9._-]+", name, finding.write)
    text = _read(path, texts)
    # A requirement is a whole text or a whole line, not a part of another one.
    pattern = rf"(?m)(?<![\w.\]-]){re.escape(before)}(?=[\"']|\s*$|\s*;)"
    yield Fix(path, re.sub(pattern, lambda _: after, text), f"{before} → {after}")


def _key(snapshot: Snapshot, finding: Finding, folder: Path | None, texts: dict[Path, str]) -> Iterator[Fix]:
    (fact,) = finding.facts
    instead, path = _KEYS.get((fact.host, fact.keyword)), snapshot.configuration
    if instead is None or path is None:
        return
    try:
        document: object = json.loads(_read(path, texts))
    except ValueError:
        return  # Comments would be lost.
    if not is_object(document):
        return
    if fact.keyword == snapshot.servers_key:
        document = {instead if key == fact.keyword else key: value for key, value in document.items()}
    else:
        servers = document[snapshot.servers_key]
        entry = servers[snapshot.name]
        servers[snapshot.name] = {instead if key == fact.keyword else key: value for key, value in entry.items()}
    yield Fix(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", f"{fact.keyword} → {instead}")


def _version(snapshot: Snapshot, finding: Finding, folder: Path | None, texts: dict[Path, str]) -> Iterator[Fix]:
    if folder is None or snapshot.registry is None or not finding.place.startswith("server.json.packages."):
        return
    path, number = folder / "server.json", int(finding.place.split(".")[3])
    document = json.loads(_read(path, texts))
    document["packages"][number]["version"] = finding.write.split('"')[3]
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    yield Fix(path, text, f"packages.{number}.version → {document['packages'][number]['version']}")


def _owner(snapshot: Snapshot, finding: Finding, folder: Path | None, texts: dict[Path, str]) -> Iterator[Fix]:
    if folder is None or snapshot.registry is None or not (folder / "README.md").is_file():
        return
    path, line = folder / "README.md", f"<!-- mcp-name: {text_of(snapshot.registry.get('name'))} -->"
    yield Fix(path, f"{_read(path, texts).rstrip()}\n\n{line}\n", f"the line {line}")


_Fixer = Callable[[Snapshot, Finding, Path | None, dict[Path, str]], Iterator[Fix]]
_FIXES: Final[Mapping[str, _Fixer]] = {
    "dependency-unbounded": _bound,
    "config-key": _key,
    "registry-version": _version,
    "registry-ownership": _owner,
}
FIXABLE: Final = frozenset(_FIXES)
