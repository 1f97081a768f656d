"""No list of a server, whatever is wrong in it, is a traceback: wrappers and locks are written, or refused shortly."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from support.schemas.tree_mutations import changed_tree

from mcp_codegen.errors import CodegenError
from mcp_codegen.paths import data_path
from mcp_codegen.servers.compare import REPORTS, compare
from mcp_codegen.servers.contract import Contract, lock_text, read_contract
from mcp_codegen.servers.wrappers import wrap

COUNT = int(os.environ.get("MCP_TREE_MUTATIONS", "2000"))
WRITTEN = 40  # Of so many lists, the wrappers of one are written: that takes most of the time.
TEXT = {"type": "string"}
TREE = {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Tree"}}}
LISTS: dict[str, Any] = {
    "server": {"serverInfo": {"name": "server", "version": "1"}, "instructions": "Read this."},
    "tools": [
        {
            "name": "search",
            "title": "Search",
            "description": "Search.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {**TEXT, "minLength": 1, "pattern": "^a", "description": "What to find."},
                    "kind": {"enum": ["a", "b"], "default": "a"},
                    "limit": {"type": ["integer", "null"], "minimum": 1, "exclusiveMaximum": 10},
                    "tree": {"$ref": "#/$defs/Tree"},
                    "filters": {"type": "array", "items": {"anyOf": [TEXT, TREE]}, "maxItems": 3},
                },
                "required": ["query"],
                "additionalProperties": False,
                "$defs": {"Tree": TREE},
            },
            "outputSchema": {"type": "object", "properties": {"found": {"type": "array", "items": TEXT}}},
            "annotations": {"readOnlyHint": True, "title": "Search"},
        },
        {"name": "plain", "inputSchema": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}},
    ],
    "prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}, {"name": "how"}]}],
    "resourceTemplates": [{"name": "note", "uriTemplate": "note://{name}{?page*}"}],
}


def used(document: Any, before: Contract, writes: bool) -> None:
    """Do with a list what the commands do."""
    contract = read_contract(document, "list.json")
    lock_text(contract)
    for changes in (compare(before, contract), compare(contract, before)):
        for report in REPORTS.values():
            report(changes, "mcp-lock.json")
    if writes:
        wrap(contract, "list.json", (data_path("templates"),))


@pytest.mark.exhaustive
def test_no_change_of_a_list_is_a_traceback_or_a_long_refusal() -> None:
    before = read_contract(LISTS, "list.json")
    used(LISTS, before, writes=True)
    refused = 0
    for seed in range(COUNT):
        try:
            used(changed_tree(LISTS, seed), before, seed % WRITTEN == 0)
        except CodegenError as error:
            refused += 1
            assert len(str(error)) <= 500 and "\n" not in str(error), (seed, str(error))
        except Exception as error:
            raise AssertionError(f"{seed}: {json.dumps(changed_tree(LISTS, seed))}") from error
    assert refused < COUNT / 2
