"""What a converter has noted of one message does not change what handlers get of the next."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from mcp_generated import REVISIONS
from mcp_products.fast.records import CoreRecord, read_as_record
from mcp_products.versions.messages import MessageConverter
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.revision import Request, Revision

MANY = {"experimental": {"own": {"deep": [1, 2]}}, "roots": {"listChanged": True}}
CAPABILITIES: list[dict[str, Any]] = [{}, {"roots": {}}, MANY, {"sampling": {}, "elicitation": {}}]
METAS: list[dict[str, Any]] = [
    {},
    {"_meta": {"progressToken": 7}},
    {"_meta": {"own/key": {"a": 1}}},
    {"_meta": {"io.modelcontextprotocol/logLevel": 5}},
]
PARAMS: dict[str, list[dict[str, Any]]] = {
    "tools/call": [
        {"name": "echo"},
        {"name": "echo", "arguments": {"text": "a", "deep": [{"b": None}]}},
        {"name": "echo", "arguments": {}, "task": {"ttl": 1}},
        {"name": "echo", "inputResponses": {}, "requestState": "own"},
        {"name": "echo", "unknown": 5},
    ],
    "tools/list": [{}, {"cursor": "next"}, {"unknown": [1]}],
    "resources/read": [{"uri": "file:///a"}, {"uri": "file:///b", "requestState": 5}],
    "prompts/get": [{"name": "p"}, {"name": "p", "arguments": {"a": "b"}}],
}
OLDER = [revision for revision in REVISIONS if revision != "2026-07-28"]


def revision_of(id: str) -> Revision:
    package = __import__(f"mcp_generated.v{id.replace('-', '_')}", fromlist=["methods"])
    revision: Revision = package.methods.REVISION
    return revision


def converted(converter: MessageConverter, method: str, params: Any, capabilities: dict[str, Any]) -> object:
    """Return what a handler gets, as JSON, or the error."""
    wire_row = converter.wire_revision.table("client_to_server")[method]
    try:
        read: Any = read_as_record(wire_row)(params)
        handler_row = converter.rows["client_to_server", method]
        got = converter.handler_params(wire_row, handler_row, read, capabilities)
    except (JSONRPCError, ValueError) as error:
        return type(error), str(error)
    assert isinstance(got, CoreRecord) or hasattr(got, "model_dump")
    return got.model_dump()


@pytest.mark.parametrize("wire", OLDER)
def test_params_after_others_are_those_of_a_new_converter(wire: str) -> None:
    versions = revision_of("2026-07-28"), revision_of(wire)
    methods = [method for method in PARAMS if isinstance(versions[1].table("client_to_server").get(method), Request)]
    cases = [
        (method, {**params, **meta}, capabilities)
        for method in methods
        for params, meta, capabilities in itertools.product(PARAMS[method], METAS, CAPABILITIES)
    ]
    expected = [converted(MessageConverter(*versions, "client_to_server", read_as_record), *case) for case in cases]
    assert any(isinstance(result, dict) and "_meta" in result for result in expected)
    used = MessageConverter(*versions, "client_to_server", read_as_record)
    order = [*range(len(cases))] * 3
    random.Random(18).shuffle(order)
    for number in order:
        method, params, capabilities = cases[number]
        # The capabilities of another client are another object, and may be equal.
        assert converted(used, method, params, {**capabilities}) == expected[number], cases[number]


def test_a_handler_that_changes_its_copy_of_params_changes_no_other() -> None:
    used = MessageConverter(revision_of("2026-07-28"), revision_of("2025-06-18"), "client_to_server", read_as_record)
    case = "tools/call", {"name": "echo", "arguments": {}}, MANY
    first = converted(used, *case)
    assert isinstance(first, dict)
    second = converted(used, *case)
    assert isinstance(second, dict)
    second["_meta"]["io.modelcontextprotocol/clientCapabilities"]["experimental"]["own"]["deep"].append(3)
    second["_meta"]["io.modelcontextprotocol/protocolVersion"] = "changed"
    assert converted(used, *case) == first != second
