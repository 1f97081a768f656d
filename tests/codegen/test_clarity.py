"""The spec-clarity report: all that is unclear at once, with what was tried; and bounds of a schema are checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.project import ROOT
from support.schemas.invented import folder, message, no_capability, record, skeleton

from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse
from mcp_codegen.model.ir import Object, Plain


def test_the_report_of_the_releases_in_docs_is_what_the_schemas_give() -> None:
    result = CliRunner().invoke(main, ["clarity", "--format", "markdown"])
    assert result.exit_code == 0
    assert (ROOT / "docs" / "clarity.md").read_text() == result.output


def test_all_that_is_unclear_is_told_at_once(tmp_path: Path) -> None:
    schema = skeleton(FetchRequest=message("fetch"), BringRequest=message("bring"))
    schema["$defs"]["LostRequest"] = message("lost")
    folder(tmp_path, schema)
    options = ["clarity", "--schema", str(tmp_path), "--format", "json"]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 1
    findings = json.loads(result.output)[0]["findings"]
    assert [(finding["kind"], finding["rule"], finding["at"]) for finding in findings] == [
        ("missing", "capability", "fetch"),
        ("missing", "capability", "bring"),
        ("missing", "direction", "LostRequest"),
    ]
    assert findings[0]["tried"] == ["server.fetch", "a row of [[capability]] in overlay.toml"]


def test_a_request_without_room_for_what_all_requests_carry_is_a_contradiction(tmp_path: Path) -> None:
    common = record({"_meta": {"type": "object"}}, "_meta")
    schema = skeleton(RequestParams=common, FetchRequest=message("fetch", record({"id": {"type": "string"}}, "id")))
    with pytest.raises(CodegenError) as caught:
        folder(tmp_path, schema, no_capability("fetch")).revision("1")
    reported = {(finding.kind, finding.at) for finding in caught.value.findings}
    assert ("contradictory", "FetchRequest") in reported


def test_a_response_says_itself_what_the_result_is(tmp_path: Path) -> None:
    response = record({"result": {"$ref": "#/$defs/Plainest"}}, "result")
    schema = skeleton(FetchRequest=message("fetch"), FetchResultResponse=response, Plainest=record({}))
    methods = folder(tmp_path, schema, no_capability("fetch")).revision("1").methods
    assert next(row.result for row in methods if row.method == "fetch") == "Plainest"


def test_bounds_of_texts_and_lists_are_read_from_schema_ts(tmp_path: Path) -> None:
    bounds = "/** @maxLength 8\n * @pattern ^a/$ */ name: string; /** @minItems 1 */ parts: string[];"
    definition = normalize(parse(f"export interface Bounded {{ {bounds} }}", "schema.ts"), "1")["$defs"]["Bounded"]
    assert definition["properties"]["name"] == {"type": "string", "pattern": "^a/$", "maxLength": 8}
    bounded = folder(tmp_path, skeleton(Bounded=definition)).revision("1").types["Bounded"]
    assert isinstance(bounded, Object)
    assert bounded.fields[0].type == Plain("string", max_length=8, pattern="^a/$")


def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused(tmp_path: Path) -> None:
    schema = skeleton(Bounded=record({"name": {"type": "string", "pattern": "(?=a)b"}}))
    with pytest.raises(CodegenError, match="Bounded.name has the pattern"):
        folder(tmp_path, schema).revision("1")
