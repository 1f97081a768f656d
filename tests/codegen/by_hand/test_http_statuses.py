"""The HTTP statuses and header names of a revision are those of its own errors and methods, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.schemas.invented import folder, message, no_capability, skeleton

from mcp_codegen.model.ir import HTTPProfile

ROW = 'name_params = { "fetch" = "name", "lost" = "uri" }, statuses = { GONE = 404, LATER = 503 }'


def profile(tmp_path: Path, constants: dict[str, int], style: str = "handshake") -> HTTPProfile:
    """Return the profile of a revision with these errors and the method `fetch`, with the statuses of `ROW`."""
    schema = skeleton(FetchRequest=message("fetch"))
    schema["x-constants"] = constants
    catalog = folder(tmp_path, schema, no_capability("fetch"))
    path = tmp_path / "overlay.toml"
    rows = path.read_text().replace("name_params = {}, statuses = {}", ROW)
    path.write_text(rows.replace('[[http]]\nstyle = "handshake"', f'[[http]]\nstyle = "{style}"'))
    return catalog.revision("1").http


@pytest.mark.parametrize(
    ("constants", "statuses"),
    [
        ({}, {}),
        ({"GONE": -1}, {"GONE": 404}),
        ({"LATER": -2, "OTHER": -3}, {"LATER": 503}),
        ({"GONE": -1, "LATER": -2}, {"GONE": 404, "LATER": 503}),
    ],
)
def test_only_errors_and_methods_of_the_revision_have_a_row(
    tmp_path: Path, constants: dict[str, int], statuses: dict[str, int]
) -> None:
    http = profile(tmp_path, constants)
    assert dict(http.statuses) == statuses
    assert dict(http.name_params) == {"fetch": "name"}
    assert (http.tool_schemas, http.tool_call) == ("", "")


def test_a_style_without_a_row_has_neither_statuses_nor_header_names(tmp_path: Path) -> None:
    http = profile(tmp_path, {"GONE": -1}, style="stateless")
    assert (http.streamable, dict(http.statuses), dict(http.name_params)) == (True, {}, {})
