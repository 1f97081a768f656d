"""Tables of the documentation that say who has what: clients by protocol version, and who does what is recommended."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

import pytest
from support.project import ROOT

import mcp_generated
from mcp_generated import REVISIONS, middleware

DOCS: Final = ROOT / "docs"
_CLIENTS: Final = (DOCS / "clients.md").read_text(encoding="utf-8").split("## What a client has")[1].split("\n## ")[0]
_CHECKLISTS: Final = (DOCS / "checklists.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", re.findall(r"^\| .*`.*\|$", _CLIENTS, re.M))
def test_a_client_of_a_version_has_the_methods_that_the_table_shows(row: str) -> None:
    head, *cells = [cell.strip() for cell in row.strip("|").split("|")]
    shown = dict(zip(sorted(REVISIONS), cells, strict=True))
    for name in re.findall(r"`(\w+)`", head):
        clients = {one: import_module(f"mcp_generated.{package}").Client for one, package in REVISIONS.items()}
        assert {one: "yes" if hasattr(client, name) else "–" for one, client in clients.items()} == shown, name


def test_the_table_of_clients_has_a_row_for_each_kind_of_message() -> None:
    assert len(re.findall(r"^\| .*`.*\|$", _CLIENTS, re.M)) >= 12


def test_each_recommendation_has_somebody_who_follows_it() -> None:
    rows = [row.split("|")[1:-1] for row in re.findall(r"^\| (?!recommendation).*\|$", _CHECKLISTS, re.M)]
    assert len(rows) >= 45
    assert {row[1].strip() for row in rows} == {"built in", "option", "yours"}
    assert [row for row in rows if row[1].strip() == "option" and not row[2].strip()] == []


def test_the_classes_that_checklists_name_are_public() -> None:
    names = set(re.findall(r"`([A-Z][a-z]\w+)(?:\(|`)", _CHECKLISTS)) - {"Origin", "Host"}
    auth = import_module("mcp_generated.auth")
    modules = (mcp_generated, middleware, auth)
    assert len(names) >= 7
    public = {name for name in names if any(hasattr(module, name) for module in modules)}
    assert names - public == {"Field"}  # Of pydantic.
