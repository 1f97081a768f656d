"""What neighbouring revisions make of each other's messages: what the official schema of the target accepts, or a
refusal that names its rule; and the way there and back leaves what it did not report as lost.

With MCP_CONVERSIONS=3000 in the environment, so many instances of each type are converted; else a few of them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.project import ROOT, needs_official, official, package

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.errors import OverlayError
from mcp_codegen.testkit.messages import InstanceGenerator
from mcp_generated import REVISIONS
from mcp_products.versions.conversion import Chain, ConversionReport, chain_of
from mcp_runtime.errors import ConversionError
from mcp_runtime.protocol.revision import InputRequest, Notification, Request

COUNT = int(os.environ.get("MCP_CONVERSIONS", "200"))
STEPS = [*pairwise(REVISIONS), *((new, old) for old, new in pairwise(REVISIONS))]
CONTENT = ("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource")
SAMPLED = ("TextContent", "ImageContent", "AudioContent", "ToolUseContent", "ToolResultContent")
CONTEXT = {"client_capabilities": {"roots": {}}}

pytestmark = needs_official


@cache
def definitions(revision: str) -> dict[str, Any]:
    schema = official(revision)
    types: dict[str, Any] = schema.get("$defs") or schema["definitions"]
    return types


@cache
def judge(revision: str, name: str) -> Any:
    """A validator of the official schema. Its JSONValue lacks null and fractions, which is an error: schema.ts has
    them, and so does ours, which stands in for it here."""
    schema = official(revision)
    section = "$defs" if "$defs" in schema else "definitions"
    ours = json.loads((ROOT / "schema" / revision / "schema.json").read_text())["$defs"]
    values = {"JSONValue": ours["JSONValue"]} if "JSONValue" in ours else {}
    kind = jsonschema.validators.validator_for(schema)
    return kind({"$ref": f"#/{section}/{name}", section: {**schema[section], **values}})


@cache
def message_of(revision: str, method: str) -> str:
    """The definition of the message with this method."""
    return next(
        name
        for name, definition in definitions(revision).items()
        if definition.get("properties", {}).get("method", {}).get("const") == method
    )


def rows(source: str, target: str) -> Iterator[Any]:
    """The rows of the source that the target has as well."""
    theirs = {(row.direction, row.method) for row in package(target, "methods").REVISION.rows}
    return (row for row in package(source, "methods").REVISION.rows if (row.direction, row.method) in theirs)


def accepted(revision: str, name: str, value: Any, context: str) -> None:
    error = jsonschema.exceptions.best_match(judge(revision, name).iter_errors(value))
    assert error is None, f"{context}: {name}: {error.message} at {list(error.absolute_path)}: {value}"


def plain(value: Any) -> Any:
    """The value without empty metadata, which says as much as none."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if (key, item) != ("_meta", {})}
    return [plain(item) for item in value] if isinstance(value, list) else value


def converted(chain: Chain, row: Any, part: str, value: Any, report: ConversionReport) -> Any:
    if part == "params":
        return chain.params(row.direction, row.method, value, report, CONTEXT)
    return chain.result(row.direction, row.method, value, report, part.removeprefix("result"))


def check(source: str, target: str, row: Any, part: str, value: Any) -> str:
    """Convert one value there and back; what has become of it."""
    forth, back = chain_of("mcp_generated", source, target), chain_of("mcp_generated", target, source)
    report = ConversionReport()
    try:
        converted_value = converted(forth, row, part, value, report)
    except ConversionError as refused:
        assert source in str(refused) and target in str(refused) and ": " in str(refused)
        return "refused"
    context = f"{row.method} {part} {source} → {target} of {value}"
    if part == "params":
        name = message_of(target, row.method)
        message = {"method": row.method, "params": converted_value}
        ids = {} if isinstance(row, Notification) else {"id": 1}
        accepted(target, name, {"jsonrpc": "2.0", **ids, **message}, context)
    else:
        name = next(answer for answer in answers(target, row) if part != "result" or answer == answers(target, row)[0])
        accepted(target, part.removeprefix("result") or name, converted_value, context)
    if report.losses:
        return "lost"
    try:
        again = converted(back, row, part, converted_value, report)
    except ConversionError as refused:
        raise AssertionError(f"{context}: not back again: {refused}") from refused
    if not report.losses and source < target:
        assert plain(again) == plain(value), context
    return "whole"


def answers(revision: str, row: Any) -> list[str]:
    """The names of what may answer a request of this method."""
    here = next(
        candidate
        for candidate in package(revision, "methods").REVISION.rows
        if (candidate.direction, candidate.method) == (row.direction, row.method)
    )
    if isinstance(here, Notification):
        return []
    return [here.result.__name__, *(interim.result.__name__ for interim in getattr(here, "interim", ()))]


def instances(source: str, row: Any, generator: InstanceGenerator, count: int) -> Iterator[tuple[str, Any]]:
    """Valid params and results of one row."""
    for _ in range(count):
        params = generator.valid(message_of(source, row.method)).get("params")
        if params is not None:
            yield "params", params
        if isinstance(row, (Request, InputRequest)):
            name, *interim = answers(source, row)
            yield "result", generator.valid(name)
            yield from ((f"result{name_of_interim}", generator.valid(name_of_interim)) for name_of_interim in interim)


@pytest.mark.edges
@pytest.mark.long
@pytest.mark.parametrize(("source", "target"), STEPS, ids=str)
def test_every_message_becomes_valid_or_is_refused(source: str, target: str) -> None:
    generator = InstanceGenerator(definitions(source), seed=5)
    met: dict[str, int] = {}
    for row in rows(source, target):
        for part, value in instances(source, row, generator, COUNT):
            outcome = check(source, target, row, part, value)
            met[outcome] = met.get(outcome, 0) + 1
    assert met["whole"] > sum(met.values()) / 4, met
    print(source, target, met)


@pytest.mark.edges("2025-11-25-2026-07-28", "2026-07-28-2025-11-25")
@pytest.mark.long
@pytest.mark.parametrize(("source", "target"), STEPS, ids=str)
def test_every_kind_of_content_becomes_valid_or_is_refused(source: str, target: str) -> None:
    generator = InstanceGenerator(definitions(source), seed=6)
    by_method = {(row.direction, row.method): row for row in rows(source, target)}
    call = by_method["client_to_server", "tools/call"]
    sample = by_method["server_to_client", "sampling/createMessage"]
    more = {"resultType": "complete"} if "resultType" in definitions(source)["CallToolResult"]["properties"] else {}
    for name in set(CONTENT) & definitions(source).keys():
        for _ in range(COUNT):
            outcome = check(source, target, call, "result", {"content": [generator.valid(name)], **more})
            assert outcome != "refused", name
    for name in set(SAMPLED) & definitions(source).keys():
        for _ in range(COUNT):
            message = {"role": "user", "content": generator.valid(name)}
            check(source, target, sample, "params", {"messages": [message], "maxTokens": 1})
            check(source, target, sample, "result", {**message, "model": "m"})


def test_a_property_that_only_the_newer_revision_names_is_dropped_where_it_means_something_else() -> None:
    report = ConversionReport()
    up = chain_of("mcp_generated", "2024-11-05", "2026-07-28")
    tools = [{"name": "a", "inputSchema": {"type": "object"}, "title": 5, "icons": "none", "own": 1}]
    upgraded = up.result("client_to_server", "tools/list", {"tools": tools}, report)
    assert upgraded["tools"] == [{"name": "a", "inputSchema": {"type": "object"}, "own": 1}]
    assert [(loss.path, loss.value) for loss in report.losses] == [("tools.0.title", 5), ("tools.0.icons", "none")]


def test_nothing_is_done_to_a_message_that_is_the_same_in_both() -> None:
    chain = chain_of("mcp_generated", "2025-03-26", "2025-06-18")
    params = {"uri": "file:///x"}
    assert chain.params("client_to_server", "resources/subscribe", params) is params
    assert not chain.result_changes("client_to_server", "resources/subscribe")


def test_a_longer_way_is_a_chain_of_steps() -> None:
    report = ConversionReport()
    down = chain_of("mcp_generated", "2026-07-28", "2024-11-05")
    content = [{"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]
    downgraded = down.result(
        "client_to_server", "tools/call", {"resultType": "complete", "content": content, "structuredContent": 1}, report
    )
    accepted("2024-11-05", "CallToolResult", downgraded, "three steps down")
    assert downgraded["content"][0]["resource"]["blob"] == "aGk=" and downgraded.keys() == {"content"}
    assert [loss.rule for loss in report.losses] == ["drop CallToolResult.structuredContent", "replace AudioContent"]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("[[drop]]\nat = 'Tool.nothing'\nreason = 'a test'\n", "[[drop]] at = 'Tool.nothing' is not used"),
        ("[[replace]]\ntype = 'A'\nuse = 'X'\nwith = {}\nreason = 'a test'\n", "[[replace]] type = 'A' is not used"),
        ("[[preserve]]\nat = 'Tool.title'\n", "needs `at` and `reason`"),
        ("[[bend]]\nat = 'Tool.title'\nreason = 'a test'\n", "unknown table 'bend'"),
        ("[[preserve]]\nat = 'Tool.x'\nwhy = 1\nreason = 'a test'\n", "has the unknown key 'why'"),
    ],
)
def test_a_row_that_is_unused_or_unreadable_fails(tmp_path: Path, row: str, complaint: str) -> None:
    shutil.copytree(ROOT / "schema", tmp_path / "schema")
    path = tmp_path / "schema" / "conversions.toml"
    path.write_text(f"{path.read_text()}\n{row}")
    with pytest.raises(OverlayError) as refused:
        SchemaCatalog(tmp_path / "schema").steps
    assert complaint in str(refused.value)
