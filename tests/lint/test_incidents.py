"""What hosts have refused of published servers is named: the rule, the host, and what to write."""

from __future__ import annotations

import pytest
from lint.incidents import INCIDENTS, Incident, tool, tools

from mcp_products.lint import lint


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: f"{incident.source}-{incident.rule}")
def test_what_a_host_has_refused_is_named_with_the_host(incident: Incident) -> None:
    findings = [finding for finding in lint(incident.snapshot) if finding.rule.name == incident.rule]
    assert findings, [finding.rule.name for finding in lint(incident.snapshot)]
    assert set(incident.hosts) <= {host for finding in findings for host in finding.hosts}
    assert all(finding.write and finding.message and finding.place for finding in findings)


def test_the_reports_are_many() -> None:
    assert len({incident.source for incident in INCIDENTS}) >= 59


def test_a_server_without_a_fault_has_no_finding() -> None:
    assert lint(tools(tool("search"), tool("fetch"))) == []
