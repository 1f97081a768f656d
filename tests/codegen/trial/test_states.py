"""States that drafts of the specification had, as small differences of the releases: they talk, or stop with the rule.

`benchmarks/generator/corpus.py` tries the states themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.matrices import long_after
from support.schemas.drafts import NEWEST, TEXT, Types, draft, message, record, ref, require

from mcp_codegen.errors import CodegenError
from mcp_codegen.update.trial import try_revision

HANDSHAKE = "2025-11-25"
Change = Callable[[Types], object]
ADDRESS = {"type": "string", "pattern": r"^https://static\.example\.org/[^/]+\.json$"}
FORM = record("form", form={"type": "object"}, url={"type": "object"})
URL = record("url", form={"type": "object"}, url={"type": "object"})
OPEN = {"type": "object", "additionalProperties": {}}


def elicitation(types: Types, schema: Types) -> None:
    types["ClientCapabilities"]["properties"]["elicitation"] = schema


def union_result(types: Types, *arms: Types) -> None:
    """The result of `completion/complete` is one of several."""
    types["WholeResult"] = types["CompleteResult"]
    types["PartialResult"] = record("resultType", "part", resultType=ref("ResultType"), part=TEXT)
    types["CompleteResult"] = {"anyOf": [ref("WholeResult"), *arms]}


def response(types: Types, *results: str) -> None:
    types["GetPromptResultResponse"]["properties"]["result"] = {"anyOf": [ref(name) for name in results]}


def unmarked_interim(types: Types) -> None:
    types["UnmarkedResult"] = record("resultType", resultType=TEXT)
    response(types, "GetPromptResult", "UnmarkedResult")


def nothing_that_carries(types: Types) -> None:
    for name in ("GetPrompt", "ReadResource", "CallTool"):
        types[f"{name}ResultResponse"]["properties"]["result"] = ref(f"{name}Result")


def optional_metadata(types: Types) -> None:
    """The metadata of requests is optional, and what is in it is not."""
    for name, defined in types.items():
        if name.endswith("RequestParams") and "_meta" in defined.get("required", ()):
            defined["required"].remove("_meta")


def params_without_metadata(types: Types) -> None:
    optional_metadata(types)
    message(types, "DescribeToolRequest", "tools/describe", "ClientRequest", record(a=TEXT))


def rounds_after_a_handshake(types: Types) -> None:
    """Input requests in the result of a tool call, with a handshake: sampling is an input request only."""
    for name in ("CreateMessageRequest", "ListRootsRequest"):  # Without the envelope of a request.
        for envelope in ("jsonrpc", "id"):
            del types[name]["properties"][envelope]
            types[name]["required"].remove(envelope)
        del types[name]["x-extends"]
    arms = types["ServerRequest"]["anyOf"]
    arms.remove(ref("CreateMessageRequest"))
    types["InputRequest"] = {"anyOf": [ref("CreateMessageRequest"), ref("ListRootsRequest")]}
    types["InputRequests"] = {"type": "object", "additionalProperties": ref("InputRequest")}
    kind = {"type": "string", "x-known": ["complete", "incomplete"]}
    requests = {"inputRequests": ref("InputRequests"), "requestState": TEXT}
    types["IncompleteResult"] = record("result_type", result_type=kind, **requests)
    response = {"anyOf": [ref("CreateMessageResult"), ref("ListRootsResult")]}
    answers = {"inputResponses": {"type": "object", "additionalProperties": response}, "requestState": TEXT}
    types["CallToolRequestParams"]["properties"] |= answers
    either = {"anyOf": [ref("CallToolResult"), ref("IncompleteResult")]}
    types["CallToolResultResponse"] = record("result", result=either)


def roots_with_common_params(types: Types) -> None:
    types["ListRootsRequest"]["properties"]["params"] = ref("RequestParams")


def completed_elicitation(types: Types) -> None:
    method = "notifications/elicitation/complete"
    message(types, "ElicitationCompleteNotification", method, "ServerNotification")


def both_unions(types: Types) -> None:
    types["ServerRequest"] = {"anyOf": [ref("ListRootsRequest"), ref("ElicitRequest")]}


def without_unions(types: Types) -> None:
    for name in ("ClientRequest", "ServerRequest", "InputRequest", "ClientNotification", "ServerNotification"):
        types[name] = TEXT


TALKING: dict[str, tuple[Change, str]] = {
    "roots/list with the params of all requests": (roots_with_common_params, NEWEST),
    "a notification that needs a capability of the client": (completed_elicitation, NEWEST),
    "a result of two objects": (lambda types: union_result(types, ref("PartialResult")), NEWEST),
    "a result of a union inside of a union": (
        lambda types: (types.update(Part={"anyOf": [ref("PartialResult")]}), union_result(types, ref("Part"))),
        NEWEST,
    ),
    "a capability with one of two properties": (lambda types: elicitation(types, {"anyOf": [FORM, URL]}), NEWEST),
    "a capability in an intersection": (
        lambda types: elicitation(types, {"allOf": [record(form=OPEN, url=OPEN), {"anyOf": [FORM, URL]}]}),
        NEWEST,
    ),
    "a text with a pattern": (lambda types: require(types, "Tool", source=ADDRESS), NEWEST),
    "a tuple": (
        lambda types: require(types, "Tool", pair={"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}),
        NEWEST,
    ),
    "a message in two unions": (both_unions, NEWEST),
    "server info in the result of the lifecycle": (
        lambda types: require(types, "DiscoverResult", serverInfo=ref("Implementation")),
        NEWEST,
    ),
    "a new request": (lambda types: message(types, "DescribeToolRequest", "tools/describe", "ClientRequest"), NEWEST),
    "a notification about a feature of the other side": (
        lambda types: message(types, "WatchNotification", "notifications/prompts/watch", "ClientNotification"),
        NEWEST,
    ),
    "optional metadata": (optional_metadata, NEWEST),
    "a new type": (lambda types: types.update(Thing=record("a", a=TEXT)), NEWEST),
    "an alias of params": (lambda types: types.update(More=ref("RequestParams")), NEWEST),
    "an optional property": (lambda types: types["Tool"]["properties"].update(more=TEXT), NEWEST),
    "a type that contains itself": (
        lambda types: (
            types.update(Nested={"anyOf": [TEXT, {"type": "array", "items": ref("Nested")}]}),
            types["Tool"]["properties"].update(nested=ref("Nested"), title=ref("Nested")),
        ),
        NEWEST,
    ),
    "a map that contains itself": (
        lambda types: (
            types.update(Tree={"anyOf": [TEXT, {"type": "object", "additionalProperties": ref("Tree")}]}),
            types["ToolAnnotations"]["properties"].update(title=ref("Tree")),
        ),
        NEWEST,
    ),
    "a deprecated type": (lambda types: types["Tool"].update(deprecated=True), NEWEST),
    "input requests after a handshake": (rounds_after_a_handshake, HANDSHAKE),
    "ping with params of any shape": (
        lambda types: types["PingRequest"]["properties"].update(params={}),
        HANDSHAKE,
    ),
    "ping with an object of any shape": (
        lambda types: types["PingRequest"]["properties"].update(params=OPEN),
        HANDSHAKE,
    ),
    "an empty base": (lambda types: types.update(Nothing={"type": "object", "properties": {}}), HANDSHAKE),
}
# States that cannot be together with another one, about the same result.
ALTERNATIVES = ("a result of two objects",)
STOPPING: dict[str, tuple[Change, str, str]] = {
    "a request in no union": (
        lambda types: message(types, "DescribeToolRequest", "tools/describe"),
        *("direction", "DescribeToolRequest"),
    ),
    "a notification in no union": (
        lambda types: message(types, "DoneNotification", "notifications/tools/done"),
        *("direction", "DoneNotification"),
    ),
    "a request about an unknown feature": (
        lambda types: message(types, "PollStreamRequest", "stream/poll", "ClientRequest"),
        *("capability", "stream/poll"),
    ),
    "a notification about an unknown feature": (
        lambda types: message(types, "DoneNotification", "notifications/stream/done", "ServerNotification"),
        *("capability", "notifications/stream/done"),
    ),
    "a method with a placeholder": (
        lambda types: message(types, "ListInRequest", "@{namespace}/tools/list", "ClientRequest"),
        *("capability", "@{namespace}/tools/list"),
    ),
    "params without metadata": (
        lambda types: message(types, "DescribeToolRequest", "tools/describe", "ClientRequest", record(a=TEXT)),
        *("message", "DescribeToolRequest"),
    ),
    "params without metadata, which is optional": (params_without_metadata, "message", "DescribeToolRequest"),
    "params that are a text": (
        lambda types: message(types, "DescribeToolRequest", "tools/describe", "ClientRequest", TEXT),
        *("message", "DescribeToolRequest"),
    ),
    "a message without a method": (
        lambda types: types["CallToolRequest"]["properties"].update(method=TEXT),
        *("message", "CallToolRequest"),
    ),
    "a message that is a text": (
        lambda types: (types.update(Text=TEXT), types["ClientRequest"]["anyOf"].append(ref("Text"))),
        *("message", "Text"),
    ),
    "a result of an object or a text": (
        lambda types: union_result(types, TEXT),
        *("result", "CompleteResult"),
    ),
    "a response with another result": (
        lambda types: response(types, "CompleteResult"),
        *("result", "GetPromptRequest"),
    ),
    "an interim result like any other": (unmarked_interim, "interim", "UnmarkedResult"),
    "input requests that no result carries": (nothing_that_carries, "interim", "InputRequest"),
    "no union of messages": (without_unions, "direction", ""),
    "a reference to nothing": (
        lambda types: require(types, "Tool", source=ref("Nowhere")),
        *("reference", "Tool.source"),
    ),
    "a pattern that looks ahead": (
        lambda types: require(types, "Tool", source={"type": "string", "pattern": "^(?!latest$).+$"}),
        *("form", "Tool.source"),
    ),
    "a union of nothing": (lambda types: require(types, "Tool", source={"anyOf": []}), "form", "Tool.source"),
    "a type of nothing": (lambda types: require(types, "Tool", source={"type": []}), "form", "Tool.source"),
    "a bound that is not a number": (
        lambda types: require(types, "Tool", source={"type": "integer", "minimum": [0]}),
        *("form", "Tool.source"),
    ),
    "a size that is not a number": (
        lambda types: require(types, "Tool", source={"type": "array", "maxItems": "3"}),
        *("form", "Tool.source"),
    ),
    "a length that is a truth": (
        lambda types: require(types, "Tool", source=TEXT | {"minLength": True}),
        *("form", "Tool.source"),
    ),
    "a property that is not a schema": (lambda types: require(types, "Tool", source=3), "form", "Tool.source"),
    "a union with itself": (
        lambda types: types.update(Loop={"anyOf": [TEXT, ref("Circle")]}, Circle={"anyOf": [TEXT, ref("Loop")]}),
        *("form", "Loop"),
    ),
    "an alias of itself": (lambda types: types.update(Loop=ref("Loop")), "form", "Loop"),
    "an enumeration of objects": (
        lambda types: require(types, "Tool", source={"enum": [{}]}),
        *("form", "Tool.source"),
    ),
    "an exclusive union": (
        lambda types: require(types, "Tool", source={"oneOf": [TEXT, OPEN]}),
        *("form", "Tool.source"),
    ),
}


@pytest.mark.parametrize("state", long_after(6, TALKING))
def test_a_state_is_derived(state: str) -> None:
    change, base = TALKING[state]
    schemas = draft(change, base)
    derived = schemas.revision("draft")
    assert len(derived.methods) >= 20 and derived.lifecycle.roles
    assert any("draft" in step for step in schemas.steps)


@pytest.mark.parametrize("state", STOPPING)
def test_a_state_stops_with_its_rule_and_place(state: str) -> None:
    change, rule, at = STOPPING[state]
    with pytest.raises(CodegenError) as caught:
        draft(change).revision("draft")
    assert (rule, at) in [(finding.rule, finding.at) for finding in caught.value.findings]
    assert all(len(finding.text) <= 500 for finding in caught.value.findings)


@pytest.mark.exhaustive
@pytest.mark.parametrize("base", [NEWEST, HANDSHAKE])
def test_the_states_that_are_derived_talk(base: str) -> None:
    """All in one draft; of those that change the same type, the last one holds."""

    def change(types: Types) -> None:
        for apply in {
            state: of[0] for state, of in TALKING.items() if of[1] == base and state not in ALTERNATIVES
        }.values():
            apply(types)

    # Older revisions do not have all of it: the conversations with them name the rows to write.
    findings = try_revision(draft(change, base), "draft", type_check=False)
    advice = [finding.text.rpartition("; ")[2] for finding in findings]
    assert bool(advice) == (base == NEWEST)
    assert all(text.startswith("write a row") and text.endswith("schema/conversions.toml") for text in advice)
