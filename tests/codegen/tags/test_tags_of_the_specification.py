"""With the tags of docs/upstream/tags.toml, the newest version needs no row of the overlay."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import tomllib
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.importer import as_official
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse
from mcp_codegen.model.ir import Object, Revision

NEWEST = "2026-07-28"
TAGS = tomllib.loads((ROOT / "docs" / "upstream" / "tags.toml").read_text(encoding="utf-8"))
Schema = dict[str, Any]


def tagged(schema: Schema, tags: dict[str, dict[str, list[str]]] = TAGS) -> Schema:
    """The schema with the tags, also where a type inherits a property that has one."""
    schema = deepcopy(schema)
    definitions = schema["$defs"]
    for place, written in {**tags["types"], **tags["properties"]}.items():
        name, *wires = place.split(".")
        for definition in definitions.values() if wires else [definitions[name]]:
            if definition is definitions[name] or descends(definitions, definition, name):
                at = definition
                for wire in wires:
                    at = at["properties"][wire]
                if definition is definitions[name] or at == original(schema, place):
                    at |= {f"x-{tag}": value for tag, value in map(split, written)}
    schema["x-tags"] = {name: dict(map(split, written)) for name, written in tags["constants"].items()}
    return schema


def original(schema: Schema, place: str) -> Schema:
    name, *wires = place.split(".")
    at = schema["$defs"][name]
    for wire in wires:
        at = at["properties"][wire]
    return {key: value for key, value in at.items() if not key.startswith("x-")}


def descends(definitions: Schema, definition: Schema, name: str) -> bool:
    bases = definition.get("x-extends", ())
    return name in bases or any(descends(definitions, definitions[base], name) for base in bases if base in definitions)


def split(tag: str) -> tuple[str, str]:
    name, _, value = tag.removeprefix("@").partition(" ")
    return name, value


def meaning(revision: Revision) -> tuple[Revision, list[str]]:
    """What a revision says, and its essential properties, which do not count in comparisons. Requirements are in no
    order."""
    methods = (replace(row, requirements=tuple(sorted(row.requirements, key=repr))) for row in revision.methods)
    objects = [written for written in revision.types.values() if isinstance(written, Object)]
    essential = [f"{owner.name}.{field.wire}" for owner in objects for field in owner.fields if field.essential]
    return replace(revision, methods=tuple(methods)), essential


@pytest.fixture
def schema() -> Schema:
    read: Schema = json.loads((ROOT / "schema" / NEWEST / "schema.json").read_text(encoding="utf-8"))
    return read


def catalog(folder: Path, overlay: str = "") -> SchemaCatalog:
    """A copy of the folder of schemas, with no other rows than these."""
    shutil.copytree(ROOT / "schema", folder, dirs_exist_ok=True)
    (folder / "overlay.toml").write_text(overlay, encoding="utf-8")
    return SchemaCatalog(folder)


@pytest.mark.parametrize("version", [NEWEST, "draft"])
def test_the_tags_stand_for_all_rows(version: str, schema: Schema, tmp_path: Path) -> None:
    with_rows = SchemaCatalog(ROOT / "schema").derive(version, schema)
    with_tags = catalog(tmp_path).derive(version, tagged(schema))
    for name in ("types", "lifecycle", "http"):
        assert getattr(with_tags, name) == getattr(with_rows, name), name
    assert meaning(with_tags) == meaning(with_rows)


@pytest.mark.long
def test_each_tag_is_needed(schema: Schema, tmp_path: Path) -> None:
    whole = meaning(SchemaCatalog(ROOT / "schema").derive(NEWEST, schema))
    bare = catalog(tmp_path)
    needless: list[str] = []
    for kind, places in TAGS.items():
        for place, written in places.items():
            for tag in written:
                rest = {**TAGS, kind: {**places, place: [other for other in written if other != tag]}}
                try:
                    same = meaning(bare.derive(NEWEST, tagged(schema, rest))) == whole
                except CodegenError:
                    continue
                needless += [f"{place} {tag}"] if same else []
    assert needless == []


def test_tags_leave_the_official_schema_as_it_is(schema: Schema) -> None:
    assert as_official(tagged(schema)) == as_official(schema)


def test_tags_are_read_where_schema_ts_has_them() -> None:
    text = """/** @role discover */
    export interface LookRequest {
      method: "look";
      /** @named Place
       * @header Mcp-Name */
      where: { x: number };
    }
    /** @httpStatus 404
     * @reserved -5..-3 */
    export const GONE = -7;"""
    schema = normalize(parse(text, "schema.ts"), "1")
    look = schema["$defs"]["LookRequest"]
    assert look["x-role"] == "discover"
    assert {key: value for key, value in look["properties"]["where"].items() if key.startswith("x-")} == {
        "x-named": "Place",
        "x-header": "Mcp-Name",
    }
    assert schema["x-tags"] == {"GONE": {"httpStatus": "404", "reserved": "-5..-3"}}


def test_a_tag_wins_over_a_row_which_is_then_left_over(schema: Schema, tmp_path: Path) -> None:
    row = '[[default]]\nat = "CacheableResult.ttlMs"\nuse = 5\nreason = "Longer."\n'
    schemas = catalog(tmp_path, row)
    fields = schemas.derive(NEWEST, tagged(schema)).types["CacheableResult"].fields  # type: ignore[union-attr]
    assert {field.wire: field.default for field in fields}["ttlMs"] == 0
    with pytest.raises(CodegenError, match=r"\[\[default\]\] at = 'CacheableResult.ttlMs' is not used"):
        schemas.overlay.check_all_used([NEWEST])


@pytest.mark.parametrize(
    ("kind", "place", "tag", "text"),
    [
        ("types", "Tool", "@role discover", "Tool has @role discover, which it cannot have; give it to a message"),
        ("properties", "Tool.title", "@constructs x", "@constructs at Tool.title says nothing there; remove it"),
        ("properties", "Tool.name", "@essential", "@essential at Tool.name says nothing there; remove it"),
        ("properties", "Tool.name", "@named Title", "@named at Tool.name says nothing there; remove it"),
        ("properties", "Tool.name", "@header X-Name", "Tool.name has @header X-Name, which it cannot have; only Mcp"),
        ("properties", "Tool.name", "@requires server.tools often", "Tool.name has @requires often, which it cannot"),
        ("constants", "PARSE_ERROR", "@httpStatus 200", "PARSE_ERROR has @httpStatus 200, which it cannot have; "),
        ("constants", "PARSE_ERROR", "@reserved 5..1", "PARSE_ERROR has @reserved 5..1, which it cannot have; write"),
        ("constants", "PARSE_ERROR", "@transport pigeon", "PARSE_ERROR has @transport pigeon, which it cannot have"),
    ],
)
def test_a_wrong_tag_is_refused_where_it_stands(
    kind: str, place: str, tag: str, text: str, schema: Schema, tmp_path: Path
) -> None:
    tags = {**TAGS, kind: {**TAGS[kind], place: [tag]}}
    with pytest.raises(CodegenError, match=text):
        catalog(tmp_path).derive(NEWEST, tagged(schema, tags))


def test_a_beginning_is_among_the_roles(schema: Schema, tmp_path: Path) -> None:
    rest = {**TAGS, "types": {**TAGS["types"], "DiscoverRequest": ["@capability none"]}}
    with pytest.raises(CodegenError, match="give one @role initialize_request or discover"):
        catalog(tmp_path).derive(NEWEST, tagged(schema, rest))


def test_the_patch_adds_the_tags_and_nothing_else() -> None:
    lines = (ROOT / "docs" / "upstream" / "specification.patch").read_text(encoding="utf-8").splitlines()
    schema, config = "\n".join(lines).split("diff --git ")[1:]
    added = Counter(re.findall(r"^\+[ /*]*(@[\w -]+?(?: [^*]*?)?)(?: \*/)?$", schema, re.M))
    written = Counter(tag for places in TAGS.values() for tags in places.values() for tag in tags)
    assert added == written
    assert not re.findall(r"^-(?!--)", schema + config, re.M)
    assert set(re.findall(r'^\+    "(@\w+)",$', config, re.M)) == {tag.split()[0] for tag in written}


def test_a_tag_is_added_to_the_comment_above_or_to_a_new_one() -> None:
    text = """/**
 * A thing.
 */
export interface Thing {
  /** Its name. */
  name: string;
  /* No JSDoc. */
  size?: {
    width: number;
  };
}
export const GONE = -7;"""
    places = {"Thing": ["@role discover"], "Thing.name": ["@named Name"], "Thing.size.width": ["@essential"]}
    tags = {
        "types": places,
        "constants": {"GONE": ["@httpStatus 404", "@reserved -5..-3"]},
        "more": {"Thing.size": ["@x"]},
    }
    expected = """/**
 * A thing.
 * @role discover
 */
export interface Thing {
  /**
   * Its name.
   * @named Name
   */
  name: string;
  /* No JSDoc. */
  /** @x */
  size?: {
    /** @essential */
    width: number;
  };
}
/**
 * @httpStatus 404
 * @reserved -5..-3
 */
export const GONE = -7;"""
    assert runpy.run_path(str(ROOT / "docs" / "upstream" / "tag.py"))["tagged"](text, tags) == expected
    with pytest.raises(SystemExit, match=r"schema.ts has no Thing.colour; correct tags.toml"):
        runpy.run_path(str(ROOT / "docs" / "upstream" / "tag.py"))["tagged"](text, {"types": {"Thing.colour": ["@x"]}})
