"""`mcp-codegen diff`: every schema-level item of the official changelogs is reported, and nothing unchanged."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.project import ROOT

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.reports.changes import DIFF_RULES, DiffChange, Severity
from mcp_codegen.reports.compare import compare

SCHEMAS = SchemaCatalog(ROOT / "schema")
NEIGHBOURS = list(pairwise(SCHEMAS.pins))

# The items of the changelog of each revision that its schema shows, in our words, and the change that reports each.
CHANGELOG = {
    "2025-03-26": [
        ("streamable HTTP takes the place of HTTP with SSE", "http-changed", "http.streamable"),
        ("batches of messages", "batches-added", "JSONRPCMessage"),
        ("annotations of tools", "field-added", "Tool.annotations"),
        ("progress says a message", "field-added", "ProgressNotificationParams.message"),
        ("sound as content", "value-wider", "ContentBlock"),
        ("sound as content of samples", "value-wider", "SamplingMessageContentBlock"),
        ("a capability for completion", "field-added", "ServerCapabilities.completions"),
        ("completion needs its capability", "capability-changed", "completion/complete (client to server)"),
    ],
    "2025-06-18": [
        ("no batches", "batches-removed", "JSONRPCMessage"),
        ("protected servers say who authorizes", "http-changed", "http.resource_metadata"),
        ("structured output", "field-added", "CallToolResult.structuredContent"),
        ("schema of structured output", "field-added", "Tool.outputSchema"),
        ("elicitation", "method-added", "elicitation/create (server to client)"),
        ("links to resources in results", "value-wider", "ContentBlock"),
        ("the header that names the revision", "http-changed", "http.version_header"),
        ("metadata of tools", "field-added", "Tool._meta"),
        ("metadata of resources", "field-added", "Resource._meta"),
        ("metadata of prompts", "field-added", "Prompt._meta"),
        ("metadata of content", "field-added", "TextContent._meta"),
        ("context of completion", "field-added", "CompleteRequestParams.context"),
        ("titles of tools", "field-added", "Tool.title"),
        ("titles of resources", "field-added", "Resource.title"),
        ("titles of programs", "field-added", "Implementation.title"),
    ],
    "2025-11-25": [
        ("icons of tools", "field-added", "Tool.icons"),
        ("icons of resources", "field-added", "Resource.icons"),
        ("icons of resource templates", "field-added", "ResourceTemplate.icons"),
        ("icons of prompts", "field-added", "Prompt.icons"),
        ("several values in an elicitation", "value-wider", "ElicitResult.content"),
        ("kinds of choices in a form", "type-form", "EnumSchema"),
        ("elicitation by URL", "type-form", "ElicitRequestParams"),
        (
            "elicitation by URL is announced as done",
            "method-added",
            "notifications/elicitation/complete (server to client)",
        ),
        ("elicitation by URL has an error", "constant-added", "URL_ELICITATION_REQUIRED"),
        ("tools in sampling", "field-added", "CreateMessageRequestParams.tools"),
        ("choice of tools in sampling", "field-added", "CreateMessageRequestParams.toolChoice"),
        ("tasks of a server", "method-added", "tasks/get (client to server)"),
        ("tasks of a client", "method-added", "tasks/result (server to client)"),
        ("a call may become a task", "interim-on-request", "tools/call (client to server)"),
        ("description of programs", "field-added", "Implementation.description"),
        ("usual values of strings", "field-added", "StringSchema.default"),
        ("usual values of numbers", "field-added", "NumberSchema.default"),
        ("dialect of schemas", "field-added", "ToolInputSchema.$schema"),
        ("streams that can be polled begin with an event", "http-changed", "http.priming_event"),
        ("params are types of their own", "type-added", "ResourceRequestParams"),
        ("params inherit", "type-extends", "CallToolRequestParams"),
    ],
    "2026-07-28": [
        ("no handshake", "lifecycle-changed", "lifecycle"),
        ("no initialize", "method-removed", "initialize (client to server)"),
        ("no initialized", "method-removed", "notifications/initialized (client to server)"),
        (
            "the version in every request",
            "field-added-required",
            "RequestMetaObject.io.modelcontextprotocol/protocolVersion",
        ),
        ("the error of a wrong version", "constant-added", "UNSUPPORTED_PROTOCOL_VERSION"),
        ("discovery", "method-required", "server/discover (client to server)"),
        ("no subscribing", "method-removed", "resources/subscribe (client to server)"),
        ("no unsubscribing", "method-removed", "resources/unsubscribe (client to server)"),
        ("listening", "method-required", "subscriptions/listen (client to server)"),
        ("no ping", "method-removed", "ping (client to server)"),
        ("no log level by method", "method-removed", "logging/setLevel (client to server)"),
        ("no notification of roots", "method-removed", "notifications/roots/list_changed (client to server)"),
        ("the log level in a request", "field-added", "RequestMetaObject.io.modelcontextprotocol/logLevel"),
        ("no tasks", "method-removed", "tasks/get (client to server)"),
        ("roots are asked for in results", "method-kind", "roots/list (server to client)"),
        ("samples are asked for in results", "method-kind", "sampling/createMessage (server to client)"),
        ("elicitation inside results", "method-kind", "elicitation/create (server to client)"),
        ("a call may ask for input", "interim-added", "tools/call (client to server)"),
        ("answers in the retry", "field-added", "CallToolRequestParams.inputResponses"),
        ("results say their type", "field-added-required", "Result.resultType"),
        ("streams cannot be resumed", "http-changed", "http.priming_event"),
        ("extensions of clients", "field-added", "ClientCapabilities.extensions"),
        ("extensions of servers", "field-added", "ServerCapabilities.extensions"),
        ("lists of tools may be cached", "field-added-required", "ListToolsResult.ttlMs"),
        ("for whom lists may be cached", "field-added-required", "ListPromptsResult.cacheScope"),
        ("resources may be cached", "field-added-required", "ReadResourceResult.ttlMs"),
        ("schemas of any kind", "field-removed", "ToolInputSchema.properties"),
        ("output of any kind", "field-removed-required", "ToolOutputSchema.type"),
        ("any structured content", "value-wider", "CallToolResult.structuredContent"),
        ("no end of elicitation", "method-removed", "notifications/elicitation/complete (server to client)"),
        ("no id of elicitation", "field-removed-required", "ElicitRequestURLParams.elicitationId"),
        ("the error of headers", "constant-added", "HEADER_MISMATCH"),
        ("the error of capabilities", "constant-added", "MISSING_REQUIRED_CLIENT_CAPABILITY"),
        ("roots are deprecated", "method-deprecated", "roots/list (server to client)"),
        ("sampling is deprecated", "method-deprecated", "sampling/createMessage (server to client)"),
        ("logging is deprecated", "field-deprecated", "ServerCapabilities.logging"),
        ("the context of samples is deprecated", "field-deprecated", "CreateMessageRequestParams.includeContext"),
        ("the interim answer", "type-added", "InputRequiredResult"),
        ("headers with the method and the name of a tool", "http-changed", "http.headers tools/call"),
        ("headers with the method and the name of a prompt", "http-changed", "http.headers prompts/get"),
        ("headers with the method and the URI of a resource", "http-changed", "http.headers resources/read"),
        ("headers with arguments of a tool", "http-changed", "http.tool_headers"),
        ("a missing resource is an invalid param", "code-reserved", "errors.-32002"),
        ("codes of the specification are reserved", "code-reserved", "errors.-32099..-32020"),
    ],
}


@cache
def changes(older: str, newer: str) -> list[DiffChange]:
    return compare(SCHEMAS.revision(older), SCHEMAS.revision(newer))


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


@pytest.mark.parametrize(
    ("newer", "rule", "at"),
    [
        pytest.param(newer, rule, at, id=f"{newer}: {what}")
        for newer, rows in CHANGELOG.items()
        for what, rule, at in rows
    ],
)
def test_an_item_of_the_changelog_is_reported(newer: str, rule: str, at: str) -> None:
    older = SCHEMAS.pins[newer].follows
    assert (rule, at) in {(change.rule, change.at) for change in changes(older, newer)}


def test_an_item_that_went_into_the_older_schema_as_well_is_no_change() -> None:
    """The changelog says that bounds and usual values are numbers now; the older schema was mended too."""
    assert not [change for change in changes("2025-11-25", "2026-07-28") if change.at.startswith("NumberSchema.")]


def test_a_revision_does_not_differ_from_itself(revision: str) -> None:
    assert compare(SCHEMAS.revision(revision), SCHEMAS.revision(revision)) == []


@pytest.mark.parametrize(("older", "newer"), NEIGHBOURS)
def test_what_is_reported_is_different_in_the_two_schemas(older: str, newer: str) -> None:
    """Judged by the text of the definitions, which the comparison never sees."""
    before, after = (SCHEMAS.normalized(revision)[0]["$defs"] for revision in (older, newer))
    for change in changes(older, newer):
        name, _, field = change.at.partition(".")
        if change.rule.startswith("field-") and name in before and name in after:
            mine, theirs = (side[name].get("properties", {}).get(field) for side in (before, after))
            assert mine != theirs or (field in before[name].get("required", [])) != (
                field in after[name].get("required", [])
            )
        elif change.rule == "type-added":
            assert name not in before
        elif change.rule == "type-removed":
            assert name not in after


@pytest.mark.parametrize(("older", "newer"), NEIGHBOURS)
def test_no_change_is_reported_twice_and_each_has_a_rule(older: str, newer: str) -> None:
    reported = changes(older, newer)
    assert (
        len(reported)
        == len(set(reported))
        == len({(change.rule, change.at, change.before, change.after) for change in reported})
    )
    assert {change.rule for change in reported} <= DIFF_RULES.keys()


@pytest.mark.parametrize(("older", "newer"), NEIGHBOURS)
def test_going_back_is_the_reverse(older: str, newer: str) -> None:
    opposite = {"method-added": "method-removed", "method-required": "method-removed", "type-added": "type-removed"}
    forth = {change.at for change in changes(older, newer) if change.rule in opposite}
    back = {change.at for change in changes(newer, older) if change.rule in opposite.values()}
    assert forth == back


def test_severities_depend_on_who_sends() -> None:
    reported = {(change.rule, change.at): change for change in changes("2025-11-25", "2026-07-28")}
    cached = reported["field-added-required", "ListToolsResult.ttlMs"]
    assert (cached.client, cached.server) == (Severity.COMPATIBLE, Severity.BREAKING)
    required = reported["params-required", "tools/list (client to server)"]
    assert (required.client, required.server) == (Severity.BREAKING, Severity.COMPATIBLE)


def test_what_is_deprecated_has_the_day_from_which_it_may_go() -> None:
    dates = {
        change.at: change.removable for change in changes("2025-11-25", "2026-07-28") if "deprecated" in change.rule
    }
    assert dates["roots/list (server to client)"] == "2027-07-28" and set(dates.values()) == {"2027-07-28"}
    rows = json.loads(run("2026-07-28", "2026-07-28", "--format", "json").output)["deprecations"]
    assert {"at": "roots/list", "since": "2026-07-28", "removable": "2027-07-28"} in rows


@pytest.mark.long
def test_exit_codes_are_for_ci() -> None:
    assert run("2025-03-26", "2025-06-18").exit_code == 1
    assert run("2025-03-26", "2025-06-18", "--fail-on", "never").exit_code == 0
    assert run("2025-03-26", "2025-03-26").exit_code == 0
    unknown = run("2025-03-26", "1999-01-01")
    assert unknown.exit_code == 2 and "neither a revision nor a folder" in unknown.output


@pytest.mark.long
def test_waivers_accept_changes_with_a_reason(tmp_path: Path) -> None:
    waivers = tmp_path / "waivers.toml"
    row = '[[waive]]\nrule = "{}"\nat = "{}"\nreason = "Not used here."\n'
    breaking = {change.rule for change in changes("2025-03-26", "2025-06-18") if change.severity is Severity.BREAKING}
    waivers.write_text("".join(row.format(rule, "*") for rule in sorted(breaking)))
    result = run("2025-03-26", "2025-06-18", "--waivers", waivers)
    assert result.exit_code == 0 and "waived: Not used here." in result.output
    waivers.write_text(row.format("field-removed", "Nothing.*"))
    assert "covers no change" in run("2025-03-26", "2025-06-18", "--waivers", waivers).output
    for text, message in (
        ("waive = 5\n", "may have rows of [[waive]] alone"),
        ("[[waiver]]\n", "may have rows of [[waive]] alone, and has waiver"),
        ('[[waive]]\nrule = "field-removed"\nat = 5\nreason = "x"\n', "a waiver needs `rule`, `at` and `reason`"),
    ):
        waivers.write_text(text)
        assert message in run("2025-03-26", "2025-06-18", "--waivers", waivers).output
    waivers.write_text(row.format("no-such-rule", "*"))
    assert "unknown rule 'no-such-rule'" in run("2025-03-26", "2025-06-18", "--waivers", waivers).output


@pytest.mark.long
def test_a_folder_is_compared_like_a_revision(tmp_path: Path) -> None:
    fork = tmp_path / "fork"
    fork.mkdir()
    schema = json.loads((ROOT / "schema" / "2026-07-28" / "schema.json").read_text())
    schema["$defs"]["Tool"]["properties"]["<b>price</b>"] = {"type": "string"}
    (fork / "schema.json").write_text(json.dumps(schema))
    reported = json.loads(run("2026-07-28", fork, "--format", "json").output)["changes"]
    assert [(change["rule"], change["at"]) for change in reported] == [("field-added", "Tool.<b>price</b>")]
    page = run("2026-07-28", fork, "--format", "html").output
    assert "<b>price" not in page and "&lt;b&gt;price" in page and "<script" not in page
    assert "`Tool.<b>price</b>`" in run("2026-07-28", fork, "--format", "markdown").output


def test_the_page_of_rules_has_every_rule_as_it_is() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (\w+) \|", (ROOT / "docs" / "diff.md").read_text(), re.MULTILINE)
    assert rows == [(name, str(rule.sender), str(rule.receiver)) for name, rule in DIFF_RULES.items()]


def test_a_folder_that_is_like_a_revision_has_its_rows(tmp_path: Path) -> None:
    shutil.copy(ROOT / "schema" / "2025-06-18" / "schema.json", tmp_path / "schema.json")
    assert "http-changed" in run("2025-06-18", tmp_path).output
    same = run("2025-06-18", tmp_path, "--like", "2025-06-18")
    assert same.exit_code == 0 and f"2025-06-18 → {tmp_path.name}: 0 changes" in same.output
    assert "unknown revision 'x'" in run("2025-06-18", tmp_path, "--like", "x").output
