"""Each change that breaks somebody has a witness, which jsonschema accepts by one revision and refuses by the other."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.project import ROOT
from support.schemas.invented import folder, message, no_capability, record, skeleton

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.paths import data_path
from mcp_codegen.reports.changes import DiffChange, Severity, Witness
from mcp_codegen.reports.compare import canonical, compare
from mcp_codegen.reports.report import DiffReport, as_html, as_json, as_markdown
from mcp_codegen.reports.witness import definitions, place_schema

SCHEMAS = SchemaCatalog(ROOT / "schema")
NEIGHBOURS = list(pairwise(SCHEMAS.pins))

# The entries of the official changelogs that change messages, by page and number, and a change that reports each.
# The other entries are about authorization, prose, or the process.
ENTRIES: dict[tuple[str, str], tuple[str, str]] = {
    ("2025-03-26", "major 2, Streamable HTTP"): ("http-changed", "http.streamable"),
    ("2025-03-26", "major 3, batching"): ("batches-added", "JSONRPCMessage"),
    ("2025-03-26", "major 4, tool annotations"): ("field-added", "Tool.annotations"),
    ("2025-03-26", "schema 1, message of progress"): ("field-added", "ProgressNotificationParams.message"),
    ("2025-03-26", "schema 2, audio"): ("value-wider", "ContentBlock"),
    ("2025-03-26", "schema 3, completions"): ("field-added", "ServerCapabilities.completions"),
    ("2025-06-18", "major 1, no batching"): ("batches-removed", "JSONRPCMessage"),
    ("2025-06-18", "major 2, structured output"): ("field-added", "CallToolResult.structuredContent"),
    ("2025-06-18", "major 3, protected resource metadata"): ("http-changed", "http.resource_metadata"),
    ("2025-06-18", "major 6, elicitation"): ("method-added", "elicitation/create (server to client)"),
    ("2025-06-18", "major 7, resource links"): ("value-wider", "ContentBlock"),
    ("2025-06-18", "major 8, version header"): ("http-changed", "http.version_header"),
    ("2025-06-18", "schema 1, _meta"): ("field-added", "Tool._meta"),
    ("2025-06-18", "schema 2, context"): ("field-added", "CompleteRequestParams.context"),
    ("2025-06-18", "schema 3, title"): ("field-added", "Prompt.title"),
    ("2025-11-25", "major 2, icons"): ("field-added", "Prompt.icons"),
    ("2025-11-25", "major 5, ElicitResult"): ("value-wider", "ElicitResult.content"),
    ("2025-11-25", "major 5, EnumSchema"): ("type-form", "EnumSchema"),
    ("2025-11-25", "major 6, URL mode"): ("type-form", "ElicitRequestParams"),
    ("2025-11-25", "major 7, tools in sampling"): ("field-added", "CreateMessageRequestParams.tools"),
    ("2025-11-25", "major 9, tasks"): ("method-added", "tasks/get (client to server)"),
    ("2025-11-25", "minor 2, description"): ("field-added", "Implementation.description"),
    ("2025-11-25", "minor 6, polling"): ("http-changed", "http.priming_event"),
    ("2025-11-25", "minor 9, defaults"): ("field-added", "StringSchema.default"),
    ("2025-11-25", "minor 10, dialect"): ("field-added", "ToolInputSchema.$schema"),
    ("2025-11-25", "schema 1, params apart"): ("type-added", "ResourceRequestParams"),
    ("2026-07-28", "major 1, no sessions"): ("lifecycle-changed", "lifecycle"),
    ("2026-07-28", "major 2, no handshake"): ("method-removed", "initialize (client to server)"),
    ("2026-07-28", "major 3, server/discover"): ("method-required", "server/discover (client to server)"),
    ("2026-07-28", "major 4, subscriptions/listen"): ("method-required", "subscriptions/listen (client to server)"),
    ("2026-07-28", "major 5, no ping"): ("method-removed", "ping (client to server)"),
    ("2026-07-28", "major 6, tasks elsewhere"): ("method-removed", "tasks/get (client to server)"),
    ("2026-07-28", "major 7, multi round-trip"): ("interim-added", "tools/call (client to server)"),
    ("2026-07-28", "major 8, resultType"): ("field-added-required", "Result.resultType"),
    ("2026-07-28", "major 9, no resumability"): ("http-changed", "http.priming_event"),
    ("2026-07-28", "minor 1, extensions"): ("field-added", "ServerCapabilities.extensions"),
    ("2026-07-28", "minor 4, request headers"): ("http-changed", "http.headers tools/call"),
    ("2026-07-28", "minor 5, ttlMs"): ("field-added-required", "ListToolsResult.ttlMs"),
    ("2026-07-28", "minor 6, -32602"): ("code-reserved", "errors.-32002"),
    ("2026-07-28", "minor 10, any schema"): ("value-wider", "CallToolResult.structuredContent"),
    ("2026-07-28", "minor 11, no elicitationId"): ("field-removed-required", "ElicitRequestURLParams.elicitationId"),
    ("2026-07-28", "minor 12, error codes"): ("code-reserved", "errors.-32099..-32020"),
    ("2026-07-28", "deprecated 1, sampling"): ("method-deprecated", "sampling/createMessage (server to client)"),
    ("2026-07-28", "deprecated 3, includeContext"): ("field-deprecated", "CreateMessageRequestParams.includeContext"),
}

# Changes that break nobody, though they look like it.
HARMLESS = {
    "2025-11-25": [
        # A result that only params request, which no older sender sends.
        *("tools/call (client to server)", "sampling/createMessage (server to client)"),
        "elicitation/create (server to client)",
    ],
    "2026-07-28": [
        # Any JSON object, with a name.
        *(
            "ClientCapabilitiesSampling.context",
            "ClientCapabilitiesSampling.tools",
            "ClientCapabilitiesElicitation.url",
        ),
        *("ClientCapabilitiesElicitation.form", "ClientCapabilities.experimental", "ServerCapabilities.experimental"),
        *("ServerCapabilities.logging", "ServerCapabilities.completions", "CreateMessageRequestParams.metadata"),
        # Properties that an index signature allows now.
        *("ToolInputSchema.properties", "ToolInputSchema.required"),
        *("ToolOutputSchema.properties", "ToolOutputSchema.required"),
        # Optional properties of open objects, whose values are ignored now.
        *("ClientCapabilities.tasks", "ServerCapabilities.tasks", "CallToolRequestParams.task", "Tool.execution"),
        "ClientCapabilitiesRoots.listChanged",
        # A type without messages of its own: what uses it is reported.
        *("Task", "InitializeRequest", "InitializeResult", "ToolExecution"),
    ],
}


@cache
def changes(older: str, newer: str) -> list[DiffChange]:
    return compare(SCHEMAS.revision(older), SCHEMAS.revision(newer))


def is_valid(revision: str, at: str, value: Any) -> bool:
    """Return the verdict of jsonschema: by the normalized schema, whose text the comparison never sees, if the type is
    there and no message, and else by the schema of the intermediate representation. Messages have no envelope here,
    and params have the properties of all params beside their own."""
    ir = canonical(SCHEMAS.revision(revision))
    written = SCHEMAS.normalized(revision)[0]["$defs"]
    if at in written and not at.endswith(("Params", "Request", "Notification")):
        return bool(Draft202012Validator({"$ref": f"#/$defs/{at}", "$defs": written}).is_valid(value))
    inner = {"$ref": f"#/$defs/{at}"} if at in ir.types else {"not": {}} if " " not in at else None
    schema = place_schema(ir, at) if at in PLACES or inner is None else inner
    return bool(Draft202012Validator({**schema, "$defs": definitions(ir)}).is_valid(value))


PLACES = ("constants", "codes", "text", "unreadable", "first")


@pytest.mark.parametrize(("newer", "entry"), ENTRIES, ids=" ".join)
def test_an_entry_of_an_official_changelog_is_reported(newer: str, entry: str) -> None:
    older = SCHEMAS.pins[newer].follows
    assert ENTRIES[newer, entry] in {(change.rule, change.at) for change in changes(older, newer)}


@pytest.mark.parametrize(("older", "newer"), NEIGHBOURS)
def test_what_breaks_has_a_witness_and_nothing_else_has(older: str, newer: str) -> None:
    for change in changes(older, newer):
        assert bool(change.witnesses) == (change.severity is Severity.BREAKING), change
        for witness in change.witnesses:
            assert {witness.accepted_by, witness.refused_by} == {older, newer}
            assert is_valid(witness.accepted_by, witness.at, witness.value), change
            assert not is_valid(witness.refused_by, other_name(change, witness), witness.value), change


def other_name(change: DiffChange, witness: Witness) -> str:
    """Return the name in the other revision of the type of a witness."""
    return change.at.split(".")[0] if witness.at in SCHEMAS.revision(witness.accepted_by).types else witness.at


@pytest.mark.parametrize(("newer", "at"), [(newer, at) for newer, places in HARMLESS.items() for at in places])
def test_what_breaks_nobody_is_no_breaking_change(newer: str, at: str) -> None:
    older = SCHEMAS.pins[newer].follows
    rules = {"method-removed", "params-required", "method-kind", "interim-added"} if "(" in at else set[str]()
    assert not [
        change
        for change in changes(older, newer)
        if change.at == at and change.severity is Severity.BREAKING and change.rule not in rules
    ]


JSON_VALUE = {"$ref": "#/$defs/JSONValue"}
NAMED = {
    "JSONValue": {
        "anyOf": [
            *({"type": kind} for kind in ("string", "number", "boolean", "null")),
            {"type": "object", "additionalProperties": JSON_VALUE},
            {"type": "array", "items": JSON_VALUE},
        ]
    }
}


@pytest.mark.parametrize(
    ("kind", "is_any"),
    [(None, True), ("string", False), ("number", False), ("boolean", False), ("null", False), ("object", False)],
)
def test_a_union_of_all_json_is_any_and_one_without_a_kind_is_not(tmp_path: Any, kind: Any, is_any: bool) -> None:
    arms = [arm for arm in NAMED["JSONValue"]["anyOf"] if arm.get("type") != kind]
    revisions = []
    for id, inner, types in (("1", {}, {}), ("2", JSON_VALUE, {"JSONValue": {"anyOf": arms}})):
        params = record({"thing": {"type": "object", "additionalProperties": inner}}, "thing")
        schema = skeleton(FetchRequest=message("fetch", params), FetchResult=record({}), **types)
        revisions.append(folder(tmp_path / id, schema, no_capability("fetch"), revision=id).revision(id))
    reported = [change for change in compare(*revisions) if change.at == "FetchRequestParams.thing"]
    assert [change.rule for change in reported] == ([] if is_any else ["value-narrower"])
    assert all(change.client is Severity.BREAKING for change in reported)


def test_reports_show_the_witnesses() -> None:
    report = DiffReport("2025-11-25", "2026-07-28", changes("2025-11-25", "2026-07-28"), [])
    text = '2025-11-25 accepts, and 2026-07-28 refuses, {"resources": []}'
    assert text in as_markdown(report)
    assert text.replace('"', "&#34;") in as_html(report, data_path("templates"))
    rows = {change["at"]: change["witnesses"] for change in json.loads(as_json(report))["changes"]}
    expected = {"at": "ListResourcesResult", "accepted_by": "2025-11-25", "refused_by": "2026-07-28"}
    assert rows["ListResourcesResult.ttlMs"] == [{**expected, "value": {"resources": []}}]
    assert rows["ListResourcesResult"] == []
