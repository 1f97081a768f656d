"""`python -m mcp_products.lint`: `mcp-generated lint` starts it, with what to read as JSON on standard input.

Secrets of a server are in that JSON, since other users can read the arguments of a process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from mcp_runtime.usage.texts import plain

from .check import lint
from .environment import project_of, read_project
from .findings import Finding, Settings
from .fixes import fixes_of
from .reading import read_server
from .registration import try_registrations
from .report import REPORTS, Report, explanation_of, rules_text
from .safety import digest
from .snapshot import Snapshot, text_of
from .table import UnknownNameError, table

_FOUND: Final = 1
_FAILED: Final = 2
_NAMED: Final = ("name-characters", "schema-object-properties")  # Rules of tools that sources can mend.


def main() -> int:
    """Print the report, and return 1 if there is an error (with `strict` also a warning), 2 for wrong use."""
    document: dict[str, Any] = json.load(sys.stdin)
    try:
        if document.get("rules"):
            sys.stdout.write(rules_text())
            return 0
        if document.get("explain"):
            sys.stdout.write(explanation_of(table().rule(document["explain"])))
            return 0
        hosts = table().hosts_of(tuple(document["hosts"]))
        ignored = frozenset(table().rule(word).code for word in document["ignored"])
    except UnknownNameError as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILED
    snapshots = [_snapshot(target, document) for target in document["servers"]]
    settings = Settings(hosts, document["budget"], ignored)
    findings = lint(snapshots, settings)
    if document.get("propose"):
        json.dump(_proposal(snapshots, findings, document["servers"]), sys.stdout)
        return 0
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    report = Report(snapshots, findings, document["file"], colour, document["whole"])
    sys.stdout.write(REPORTS[document["format"]](report))
    failing = {"error", "warning"} if document["strict"] else {"error"}
    return _FOUND if any(finding.level in failing for finding in findings) else 0


def _proposal(snapshots: list[Snapshot], findings: list[Finding], targets: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the certain changes of files, and what is wrong with each server that its sources can mend."""
    edits: list[dict[str, Any]] = []
    servers: list[dict[str, Any]] = []
    for snapshot, target in zip(snapshots, targets, strict=True):
        source = target.get("source") or ""
        own = [finding for finding in findings if finding.server == snapshot.name]
        for fix in fixes_of(snapshot, own, project_of(Path(source)) if source else None):
            change = {"change": plain(fix.change), "line": fix.line, "code": fix.code}
            edits.append({"path": str(fix.path), "text": fix.text, **change})
        named = {rule: [item.place.split(".", 1)[1] for item in own if item.rule.name == rule] for rule in _NAMED}
        bare = [place.removesuffix(".inputSchema") for place in named["schema-object-properties"]]
        names = [text_of(tool.get("name")) for tool in snapshot.tools]
        noise = " ".join(snapshot.noise[0].split()) if snapshot.noise else ""
        wrong = {"refused": named["name-characters"], "bare": [name for name in bare if name in names], "noise": noise}
        servers.append({"source": source or target.get("program", ""), "names": names, **wrong})
    return {"edits": edits, "servers": servers}


def _snapshot(target: dict[str, Any], document: dict[str, Any]) -> Snapshot:
    configuration = target.get("configuration")
    snapshot = Snapshot(
        name=target["name"],
        named=target["named"],
        url=target["url"],
        command=target["command"],
        entry=target.get("entry"),
        configuration=Path(configuration) if configuration else None,
        servers_key=target.get("servers_key", ""),
    )
    if target.get("source"):
        read_project(snapshot, project_of(Path(target["source"])))
    if document["start"]:
        read_server(
            snapshot,
            env=target["env"],
            cwd=target["cwd"],
            headers=target["headers"],
            timeout=document["timeout"],
            call=document["call"],
        )
        if document.get("register") and snapshot.url:
            try_registrations(snapshot, document["timeout"])
        if not target["named"] and isinstance(snapshot.info.get("name"), str):
            snapshot.name = snapshot.info["name"] or snapshot.name
    if document.get("lock"):
        kept = {f"tools.{name}": digest(item) for name, item in document["lock"].items()}
        snapshot.lock = kept
    return snapshot


if __name__ == "__main__":
    sys.exit(main())
