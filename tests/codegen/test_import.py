"""Importing: schema.ts becomes our edition, provably the same as schema.json; verifying: does it still."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.project import ROOT, needs_official, official
from support.schemas.drafts import NEWEST

from mcp_codegen.cli.main import main
from mcp_codegen.importer.importer import as_official, differences, published
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse

SPECIFICATION = Path(os.environ.get("MCP_SPECIFICATION", "absent"))
TS = """
/** @internal */
export const VERSION = "1";
/** @category Things */
export type Id = string | number;
export type Name = string;
/** Open, and deprecated.
 * @deprecated since ever
 */
export interface Base {
  /** @TJS-type number
   * @minimum 0 */
  share?: number;
  count: number;
  [key: string]: unknown;
}
// A comment between.
export interface Thing extends Base {
  id: Id;
  "odd/name"?: Name;
  kind: "thing";
  mood?: "calm" | "angry" | string;
  value: string | number | boolean | null;
  version: typeof VERSION;
  parts: (Thing | Base)[];
  nested?: { any?: object; list: Array<Name> };
}
export interface Slim extends Omit<Base, "count" | "share"> {}
export type Either = Thing | Slim;
"""
JSON = {
    "Id": {"type": ["string", "integer"]},
    "Name": {"type": "string"},
    "Base": {
        "type": "object",
        "properties": {"share": {"type": "number", "minimum": 0}, "count": {"type": "integer"}},
        "required": ["count"],
        "additionalProperties": {},
    },
    "Thing": {
        "type": "object",
        "properties": {
            "share": {"type": "number", "minimum": 0},
            "count": {"type": "integer"},
            "id": {"$ref": "#/definitions/Id"},
            "odd/name": {"type": "string"},
            "kind": {"const": "thing", "type": "string"},
            "mood": {"type": "string", "description": "prose that does not count"},
            "value": {"type": ["string", "integer", "boolean"]},
            "version": {"const": "1", "type": "string"},
            "parts": {
                "type": "array",
                "items": {"anyOf": [{"$ref": "#/definitions/Base"}, {"$ref": "#/definitions/Thing"}]},
            },
            "nested": {
                "type": "object",
                "properties": {
                    "any": {"type": "object", "properties": {}, "additionalProperties": True},
                    "list": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["list"],
            },
        },
        "required": ["count", "id", "kind", "value", "version", "parts"],
    },
    "Slim": {"type": "object", "properties": {}},
    "Either": {"anyOf": [{"$ref": "#/definitions/Thing"}, {"$ref": "#/definitions/Slim"}]},
}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def checkout(root: Path, ts: str = TS, json_: object = None) -> Path:
    folder = root / "checkout" / "schema" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.ts").write_text(ts)
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": JSON if json_ is None else json_}
    (folder / "schema.json").write_text(json.dumps(schema))
    return root / "checkout"


def imported(root: Path, source: Path) -> Result:
    (root / "schema").mkdir(exist_ok=True)
    return run("import", "--from", source, "--revision", "one", "--commit", "c0ffee", "--schema", root / "schema")


def test_a_new_folder_of_schemas_begins_with_ours(tmp_path: Path) -> None:
    source, schemas = checkout(tmp_path), tmp_path / "new" / "schemas"
    result = run("import", "--from", source, "--revision", "one", "--commit", "0", "--schema", schemas)
    assert f"follows {NEWEST}; " in result.output
    ours = {path.relative_to(ROOT / "schema") for path in (ROOT / "schema").rglob("*") if path.is_file()}
    assert ours <= {path.relative_to(schemas) for path in schemas.rglob("*")}


def test_our_edition_keeps_what_schema_json_loses() -> None:
    schema = normalize(parse(TS, "schema.ts"), "one")
    thing, base = schema["$defs"]["Thing"], schema["$defs"]["Base"]
    assert schema["x-constants"] == {"VERSION": "1"}
    assert thing["x-extends"] == ["Base"] and thing["x-open"] is True
    assert list(thing["properties"])[:3] == ["share", "count", "id"]
    assert thing["properties"]["odd/name"] == {"$ref": "#/$defs/Name"}
    assert thing["properties"]["mood"] == {"type": "string", "x-known": ["calm", "angry"]}
    assert thing["properties"]["version"]["x-constant"] == "VERSION"
    assert {"type": "null", "x-official": False} in thing["properties"]["value"]["anyOf"]
    assert base["deprecated"] is True and "x-open" not in base
    assert schema["$defs"]["Slim"]["x-omits"] == ["count", "share"]
    assert schema["$defs"]["Id"]["x-category"] == "Things"


def test_no_prose_of_the_official_files_is_in_our_edition(revision: str) -> None:
    text = (ROOT / "schema" / revision / "schema.json").read_text()
    assert '"description": "' not in text


@needs_official
def test_our_edition_reduces_to_the_official_definitions(revision: str) -> None:
    ours = as_official(json.loads((ROOT / "schema" / revision / "schema.json").read_text()))
    theirs = published(official(revision))
    assert differences(ours, theirs) == []
    assert ours.keys() == theirs.keys()


@needs_official
def test_all_553_definitions_are_there() -> None:
    revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert sum(len(published(official(revision))) for revision in revisions) == 553


@pytest.mark.parametrize("marks", [{}, {"x-capability": "none", "x-direction": "client_to_server", "x-result": "Base"}])
def test_tags_of_messages_are_imported_with_and_without_keys_in_schema_json(
    tmp_path: Path, marks: dict[str, str]
) -> None:
    tags = "/** @capability none\n * @direction client_to_server\n * @result Base */\n"
    tagged = TS.replace("export interface Slim", f"{tags}export interface Slim")
    result = imported(tmp_path, checkout(tmp_path, tagged, {**JSON, "Slim": JSON["Slim"] | marks}))
    assert "6 of 6 definitions agree" in result.output
    schema = json.loads((tmp_path / "schema" / "unclear" / "one" / "schema.json").read_text())
    assert {name: schema["$defs"]["Slim"][name] for name in ("x-direction", "x-capability", "x-result")} == {
        "x-direction": "client_to_server",
        "x-capability": "none",
        "x-result": "Base",
    }


def test_import_writes_edition_and_pins_once_both_files_agree(tmp_path: Path) -> None:
    result = imported(tmp_path, checkout(tmp_path))
    assert result.exit_code == 2, "what has no messages is written, and reported as unclear"
    assert "missing (direction) at the schema: one: none of ClientRequest" in result.output
    assert "6 of 6 definitions agree" in result.output
    assert "without a sentence in docs.toml: Id, Name" in result.output
    assert 'commit = "c0ffee"' in (tmp_path / "schema" / "unclear" / "one" / "pins.toml").read_text()
    assert list(json.loads((tmp_path / "schema" / "unclear" / "one" / "schema.json").read_text())["$defs"]) == list(
        JSON
    )


@pytest.mark.parametrize(
    ("ts", "message"),
    [
        (
            TS.replace("count: number", "count: string"),
            'Base.properties.count.type: the normalized schema has "string"',
        ),
        (TS.replace("count: number", "count?: number"), "Base"),
        (TS.replace("export type Name = string;", ""), "Name is used but not declared"),
        (TS + "export type More = string;", "More: only in the normalized schema"),
        (
            TS.replace("interface Slim extends Omit<Base", "interface Slim extends Omit<Id"),
            "Id, which is not an interface",
        ),
        (TS + "export type Odd = Partial<Base>;", "generic type Partial<…> is not supported"),
        (TS + "export interface {", "is not valid TypeScript"),
        (
            TS + "export enum E { A }",
            "an enum is outside of the TypeScript that schemas are read in; write a union of literals",
        ),
    ],
)
def test_import_refuses_in_one_line_and_writes_nothing(tmp_path: Path, ts: str, message: str) -> None:
    result = imported(tmp_path, checkout(tmp_path, ts))
    assert result.exit_code == 2
    assert message in result.output and result.output.count("\n") == 1, result.output
    assert not (tmp_path / "schema" / "one").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "schema.json: is not JSON"),
        (b"\xff", "schema.json: is not JSON"),
        (b"[" * 100_000, "schema.json: is not JSON"),
        (b"[]", "schema.json: must be a JSON object, not list"),
        (b'"text"', "schema.json: must be a JSON object, not str"),
        (b"null", "schema.json: must be a JSON object, not NoneType"),
    ],
)
def test_import_refuses_a_published_schema_that_is_no_object(tmp_path: Path, content: bytes, message: str) -> None:
    source = checkout(tmp_path)
    (source / "schema" / "one" / "schema.json").write_bytes(content)
    done = imported(tmp_path, source)
    assert done.exit_code == 2 and message in done.output and done.output.count("\n") == 1


def test_import_names_the_file_that_is_missing(tmp_path: Path) -> None:
    source = checkout(tmp_path)
    (source / "schema" / "one" / "schema.ts").unlink()
    assert "schema.ts: cannot be read" in imported(tmp_path, source).output


def test_verify_says_what_moved(tmp_path: Path) -> None:
    source = checkout(tmp_path)
    imported(tmp_path, source)
    same = run("verify", "--from", source, "--schema", tmp_path / "schema")
    assert same.exit_code == 0 and "one: equal, 6 definitions" in same.output
    changed = json.loads(json.dumps(JSON).replace('"thing"', '"object"'))
    checkout(tmp_path, TS.replace('"thing"', '"object"'), changed)
    moved = run("verify", "--from", source, "--schema", tmp_path / "schema")
    assert moved.exit_code == 1
    assert "Thing.properties.kind.const" in moved.output


def test_verify_sees_what_only_schema_ts_says(tmp_path: Path) -> None:
    source = checkout(tmp_path)
    imported(tmp_path, source)
    checkout(tmp_path, TS.replace("@deprecated since ever", ""))
    assert "Base" in run("verify", "--from", source, "--schema", tmp_path / "schema").output
    checkout(tmp_path, TS.replace('= "1"', '= "1" // now'))
    assert (
        "the bytes differ from the pinned sha256"
        in run("verify", "--from", source, "--schema", tmp_path / "schema").output
    )


@pytest.mark.skipif(
    not SPECIFICATION.is_dir(), reason="MCP_SPECIFICATION names no checkout of the specification's repository"
)
def test_the_official_schema_ts_files_still_give_our_edition() -> None:
    result = run("verify", "--from", SPECIFICATION)
    assert result.exit_code == 0, result.output
