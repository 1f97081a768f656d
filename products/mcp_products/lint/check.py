"""All checks of one server, and of several together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .environment import (
    check_command,
    check_entry,
    check_redirects,
    check_registry,
    check_requirements,
    check_url,
)
from .findings import Check, Finding, Settings, weighed
from .names import check_composed_names, check_names, check_twice
from .quality import check_connector, check_parameters, check_resources, check_similar
from .results import check_process, check_results
from .safety import check_annotations, check_lock, check_shadows, check_texts
from .schemas import check_schemas
from .sizes import check_count, check_descriptions, check_tokens
from .snapshot import Snapshot
from .table import LEVELS
from .walk import bounded

CHECKS: Final[tuple[Check, ...]] = (
    check_process,
    check_names,
    check_composed_names,
    check_twice,
    check_schemas,
    check_descriptions,
    check_count,
    check_tokens,
    check_results,
    check_texts,
    check_annotations,
    check_lock,
    check_command,
    check_entry,
    check_url,
    check_requirements,
    check_registry,
    check_redirects,
    check_resources,
    check_parameters,
    check_similar,
    check_connector,
)


def lint(snapshots: Snapshot | Sequence[Snapshot], settings: Settings | None = None) -> list[Finding]:
    """Return what hosts would refuse, the worst first. Several servers are also compared with each other."""
    given = [snapshots] if isinstance(snapshots, Snapshot) else list(snapshots)
    servers = [replace(server, tools=[bounded(tool) for tool in server.tools]) for server in given]
    chosen = settings or Settings()
    rows = [(server, finding) for server in servers for check in CHECKS for finding in check(server, chosen)]
    rows += check_shadows(servers)
    findings = [
        replace(finding, server=server.name)
        for server, row in rows
        if (finding := weighed(row, chosen.hosts)) is not None and not {row.rule.code, row.rule.name} & chosen.ignored
    ]
    return sorted(findings, key=lambda finding: (LEVELS.index(finding.level), finding.rule.code))
