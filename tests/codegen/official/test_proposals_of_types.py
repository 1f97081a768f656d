"""Eight invented proposals for the next revision regenerate the official form of the types as well."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.matrices import long_after
from support.schemas.proposals import DRAFT, PROPOSALS, schemas_with

from mcp_codegen.cli.protocols import official_files

# What a program sees of the package: after each proposal, the values of these lines.
SEES = """
import json, sys
sys.path.insert(0, sys.argv[1])
import mcp_types as t
from mcp_types import methods as m, version as v

def fields(name):
    return {field.alias or key: field.is_required() for key, field in getattr(t, name).model_fields.items()}

def rows(table, method):
    return [revision for found, revision in getattr(m, table) if found == method]

print(json.dumps(eval(sys.argv[2])))
"""
OLDER = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
EXPECTED: dict[str, list[tuple[str, Any]]] = {
    "a new request": [
        ("rows('CLIENT_REQUESTS', 'tools/search')", [DRAFT]),
        ("m.MONOLITH_RESULTS['tools/search'].__name__", "SearchToolsResult"),
        ("t.SearchToolsRequest.model_fields['method'].default", "tools/search"),
    ],
    "a new notification": [("rows('SERVER_NOTIFICATIONS', 'notifications/tools/retired')", [DRAFT])],
    "a new content type": [("'NoteContent' in str(t.ContentBlock)", True)],
    "a renamed property": [
        ("fields('Tool')['inputSchema']", False),
        ("fields('Tool')['parameters']", False),
    ],
    "a renamed method": [
        ("rows('CLIENT_REQUESTS', 'tools/call')", OLDER),
        ("rows('CLIENT_REQUESTS', 'tools/invoke')", [DRAFT]),
        ("m.parse_client_request('tools/call', '2025-11-25', {'name': 'a'}).method", "tools/call"),
        (
            "{m.MONOLITH_REQUESTS[name].__name__ for name in ('tools/call', 'tools/invoke')} == {'CallToolRequest'}",
            True,
        ),
    ],
    "a new required property": [("fields('Tool')['risk']", False)],
    "a new error with an HTTP status": [("t.TOOL_BUSY", -32030)],
    "a removed method": [
        ("rows('CLIENT_REQUESTS', 'prompts/list')", OLDER),
        ("m.MONOLITH_REQUESTS['prompts/list'].__name__", "ListPromptsRequest"),
    ],
}


@pytest.mark.edges("a renamed method")
@pytest.mark.long
@pytest.mark.parametrize("name", long_after(1, list(PROPOSALS)))
def test_the_official_form_of_the_types_has_a_proposal(name: str, tmp_path: Path) -> None:
    schemas = schemas_with(tmp_path, PROPOSALS[name])
    for path, text in official_files(schemas, "mcp-types-2.3", DRAFT).items():
        place = tmp_path / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    facts = [("list(v.KNOWN_PROTOCOL_VERSIONS)", [*OLDER, DRAFT]), *EXPECTED[name]]
    question = "[" + ", ".join(expression for expression, _ in facts) + "]"
    seen = subprocess.run(
        [sys.executable, "-c", SEES, tmp_path, question], capture_output=True, text=True, timeout=120, check=False
    )
    assert seen.returncode == 0, seen.stderr
    assert json.loads(seen.stdout) == [value for _, value in facts]
