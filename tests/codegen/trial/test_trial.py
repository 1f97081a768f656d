"""Clean means that it talks: an import whose bindings do not work has a finding, and disturbs no other revision."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datamodel_code_generator
import pytest
from click.testing import CliRunner, Result
from datamodel_code_generator import Error
from support.project import ROOT
from support.schemas.drafts import NEWEST, REF, TEXT, Types, draft, require

from mcp_codegen.cache import VARIABLE
from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.model.ir import Alias, Array, Field, Object, Plain, Ref, Union
from mcp_codegen.model.names import matching_text
from mcp_codegen.paths import data_path
from mcp_codegen.render import declarations
from mcp_codegen.render.package import RevisionPackage
from mcp_codegen.update import trial
from mcp_codegen.update.trial import NoSampleError, Samples, try_revision


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def unfilled(types: Types) -> None:
    """A result of the lifecycle has a required property of which no runtime can know."""
    require(types, "DiscoverResult", surprise=TEXT)


def endless(types: Types) -> None:
    """No value of the arguments ends."""
    types["Endless"] = {"type": "object", "properties": {"inner": {"$ref": f"{REF}Endless"}}, "required": ["inner"]}
    require(types, "CallToolRequestParams", endless={"$ref": f"{REF}Endless"})


def impossible(types: Types) -> None:
    """No value is as long as it has to be."""
    require(types, "CallToolResult", note=TEXT | {"minLength": 5, "maxLength": 2})


@pytest.mark.edges("conversation", "impossible")
@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "rule", "at"),
    [
        (unfilled, "conversation", "DiscoverResult"),
        (endless, "sample", "Endless"),
        (impossible, "sample", "CallToolResult"),
    ],
)
def test_bindings_that_do_not_work_are_a_finding_with_its_place(
    change: Callable[[Types], None], rule: str, at: str
) -> None:
    findings = try_revision(draft(change), "draft", type_check=False)
    assert (rule, True) in [(finding.rule, at in f"{finding.at} {finding.text}") for finding in findings]
    assert all(len(finding.text) <= 500 for finding in findings)


def test_what_the_tool_for_types_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Error("one\ntwo " + "x" * 1000)

    monkeypatch.setattr(datamodel_code_generator, "generate", refuse)
    monkeypatch.setattr(declarations, "_texts", {})
    monkeypatch.setenv(VARIABLE, "off")
    with pytest.raises(CodegenError, match="datamodel-code-generator cannot read a definition: one two x") as caught:
        RevisionPackage(draft(lambda types: None).revision("draft"), (data_path("templates"),)).types()
    assert len(str(caught.value)) <= 500


@pytest.mark.exhaustive
def test_a_required_server_info_in_the_result_of_the_lifecycle_is_filled_in() -> None:
    schemas = draft(lambda types: require(types, "DiscoverResult", serverInfo={"$ref": f"{REF}Implementation"}))
    assert try_revision(schemas, "draft", type_check=False) == ()


@pytest.mark.edges("2026-07-28")
@pytest.mark.long
@pytest.mark.parametrize("base", SchemaCatalog(ROOT / "schema").pins)
def test_a_copy_of_a_release_talks(base: str) -> None:
    assert try_revision(draft(lambda types: None, base), "draft", type_check=False) == ()


@pytest.mark.parametrize(
    "pattern",
    [
        r"^https://static\.example\.org/schemas/v1/[^/]+\.schema\.json$",
        "^data:.*;base64,.*$",
        r"^v[0-9]*\..*$",
        r"^(?:[a-z]{2,3}|x)-(\d{4}\s)?[A-Z]+$",
        r"^[^\]a-f]{3}\w\S+\$$",
        "a|b",
        "(ab)+",
        "(ab){2}c",
    ],
)
def test_a_text_is_made_for_a_pattern(pattern: str) -> None:
    text = matching_text(pattern)
    assert text is not None and re.search(pattern, text)


@pytest.mark.parametrize("pattern", ["^(?=b)a$", "a(?<!a)", "^b$a"])
def test_no_text_is_made_for_a_pattern_that_cannot_be_followed(pattern: str) -> None:
    assert matching_text(pattern) is None


@pytest.mark.exhaustive
def test_what_mypy_refuses_is_a_finding_and_so_is_a_mypy_that_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = trial.generate

    def wrong(*arguments: Any) -> dict[Path, str]:
        files = texts(*arguments)
        return {path: text + 'wrong: int = "a"\n' * (path.name == "sync.py") for path, text in files.items()}

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trial, "generate", wrong)
    findings = try_revision(draft(lambda types: None), "draft")
    assert {(finding.rule, finding.at.partition(":")[0]) for finding in findings} == {("types", "sync.py")}
    monkeypatch.setattr(trial, "_CONFIGURATION", "[mypy]\nplugins = not_there\n")
    stopped = try_revision(draft(lambda types: None), "draft")
    assert [finding.rule for finding in stopped] == ["types"] and "--no-type-check" in stopped[0].text


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A folder of schemas into which a draft was imported that has no messages, and what was printed."""
    folder = tmp_path_factory.mktemp("apart")
    shutil.copytree(ROOT / "schema", folder / "schema")
    (folder / "schema.ts").write_text("export interface Thing { a: string }\n")
    official = {"Thing": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}}
    (folder / "schema.json").write_text(json.dumps({"definitions": official}))
    options = ("--from", folder, "--revision", "draft", "--commit", "0", "--schema", folder / "schema")
    return folder / "schema", run("import", *options)


def test_a_draft_with_findings_is_kept_apart(apart: tuple[Path, Result]) -> None:
    schemas, result = apart
    assert result.exit_code == 2 and "set aside in" in result.output
    assert not (schemas / "draft").exists() and (schemas / "unclear" / "draft" / "pins.toml").is_file()


def test_a_draft_with_findings_blocks_no_other_revision(apart: tuple[Path, Result]) -> None:
    schemas, _ = apart
    listed = run("list", "--schema", schemas)
    assert listed.exit_code == 0 and NEWEST in listed.output and "draft" in listed.output.splitlines()[-1]
    catalog = SchemaCatalog(schemas)
    catalog.check_overlay()
    assert "draft" not in catalog.pins and list(catalog.steps)


def test_a_draft_with_findings_is_refused_by_name_and_reported(apart: tuple[Path, Result]) -> None:
    schemas, _ = apart
    refused = run("--revision", "draft", "--schema", schemas, "--output", schemas / "bindings")
    assert refused.exit_code == 2 and "mcp-codegen clarity --revision draft" in refused.output
    report = run("clarity", "--revision", "draft", "--schema", schemas)
    assert report.exit_code == 1 and "direction" in report.output


@pytest.mark.parametrize("name", ["unclear", "extensions", "../up", "a b", ".hidden", ""])
def test_an_id_that_is_no_name_of_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    result = run("import", "--from", tmp_path, "--revision", name, "--commit", "0", "--schema", tmp_path)
    assert result.exit_code == 2 and "cannot be the id of a revision" in result.output
    assert list(tmp_path.iterdir()) == []


def samples(**types: Object | Alias) -> Samples:
    revision = SchemaCatalog(ROOT / "schema").revision(NEWEST)
    object.__setattr__(revision, "types", types)
    return Samples(revision)


def field(name: str, of: Any, required: bool = True) -> Field:
    return Field(name, name, of, required)


def test_samples_end_where_a_value_can_end() -> None:
    tree = Object("Tree", (field("left", Ref("Tree"), required=False), field("leaves", Array(Ref("Tree")))))
    assert samples(Tree=tree).smallest(Ref("Tree")) == {"leaves": []}
    value = Alias("Value", Union((Ref("Box"), Plain("string"))))
    box = Object("Box", (field("value", Ref("Value")),))
    assert samples(Value=value, Box=box).smallest(Ref("Value")) == "text"
    assert samples(Value=value, Box=box).smallest(Ref("Box")) == {"value": "text"}
    with pytest.raises(NoSampleError, match="Loop has no finite value"):
        samples(Loop=Object("Loop", (field("again", Ref("Loop")),))).smallest(Ref("Loop"))


@pytest.mark.parametrize(
    "plain",
    [Plain("string", min_length=3, max_length=2), Plain("integer", minimum=3, maximum=2)],
    ids=["text", "number"],
)
def test_bounds_that_exclude_each_other_have_no_sample(plain: Plain) -> None:
    with pytest.raises(NoSampleError):
        samples().smallest(plain)


def test_a_row_that_fits_no_draft_does_not_stop_it() -> None:
    def with_other_capabilities(types: Types) -> None:
        del types["ServerCapabilities"]["properties"]["completions"]

    derived = draft(with_other_capabilities).revision("draft")
    assert next(row.capability for row in derived.methods if row.method == "completion/complete") == ""


def test_a_row_whose_capability_a_draft_has_not_is_named_with_the_way_around() -> None:
    def without_logging(types: Types) -> None:
        del types["ServerCapabilities"]["properties"]["logging"]

    with pytest.raises(CodegenError) as caught:
        draft(without_logging).revision("draft")
    assert "[[capability]] method = 'notifications/message'" in str(caught.value)
    assert "only = ['draft']" in str(caught.value) and len(str(caught.value)) <= 500
