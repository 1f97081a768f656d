"""Descriptions: the sentences of docs.toml, which are ours, and texts of the specification where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, record, skeleton

from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse
from mcp_codegen.model.ir import Object
from mcp_codegen.model.overlay import undocumented

DOCS = """
[types]
Cat = "A cat."

[properties]
"Cat.tail" = "The length of the tail, in cm."
"""
THEIRS = " (Text of the specification.)"


def text(words: str) -> dict[str, Any]:
    return {"type": "string", "x-doc": words + THEIRS}


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("/** How many. */", "How many."),
        ("/**\n * How many,\n * at most.\n *\n * Further words.\n */", "How many, at most."),
        ("/**\n * How many.\n * @minimum 1\n */", "How many."),
        ("/** See {@link Page | the page} and {@link Cursor}. */", "See the page and `Cursor`."),
        ("/** See [here](/specification/a). */", "See [here](https://modelcontextprotocol.io/specification/a)."),
    ],
)
def test_the_first_paragraph_of_a_comment_is_kept(comment: str, expected: str) -> None:
    defined = normalize(parse(f"export interface Page {{\n{comment}\ncount: number; }}", "schema.ts"), "1")["$defs"]
    assert defined["Page"]["properties"]["count"]["x-doc"] == expected + THEIRS


@pytest.mark.parametrize("comment", ["", "/** @minimum 1 */", "/** */", "// How many."])
def test_a_property_without_a_text_has_none(comment: str) -> None:
    defined = normalize(parse(f"export interface Page {{\n{comment}\ncount: number; }}", "schema.ts"), "1")["$defs"]
    assert "x-doc" not in defined["Page"]["properties"]["count"]


def test_a_property_of_the_same_name_is_not_described_by_the_row_of_another_type(tmp_path: Path) -> None:
    fields = {"tail": {"type": "string"}}
    types = folder(tmp_path, skeleton(Cat=record(fields), Queue=record(fields)), docs=DOCS).types("1")
    cat, queue = types["Cat"], types["Queue"]
    assert isinstance(cat, Object) and isinstance(queue, Object)
    assert (cat.fields[0].doc, queue.fields[0].doc) == ("The length of the tail, in cm.", "")


def test_a_text_of_the_specification_stays_where_no_sentence_is(tmp_path: Path) -> None:
    schema = skeleton(
        Cat={**record({"tail": text("A tail."), "coat": text("A coat.")}), "x-doc": "Cats." + THEIRS},
        Queue={**record({"tail": text("The last one.")}), "x-doc": "Those who wait." + THEIRS},
    )
    catalog = folder(tmp_path, schema, docs=DOCS)
    left = json.loads(catalog.without_covered_texts("1", json.dumps(schema)))["$defs"]
    assert "x-doc" not in left["Cat"] and "x-doc" not in left["Cat"]["properties"]["tail"]
    assert left["Cat"]["properties"]["coat"]["x-doc"] == "A coat." + THEIRS
    assert left["Queue"] == schema["$defs"]["Queue"]
    catalog = folder(tmp_path, {**schema, "$defs": left}, docs=DOCS)
    types = catalog.types("1")
    assert types["Cat"].doc == "A cat." and types["Queue"].doc == "Those who wait." + THEIRS
    missing = set(undocumented(types, catalog.docs))
    assert {"Queue", "Queue.tail", "Cat.coat"} <= missing and not {"Cat", "Cat.tail"} & missing


def test_an_inline_object_keeps_the_text_that_it_shares_with_its_property(tmp_path: Path) -> None:
    docs = '[properties]\n"Cat.owner" = "Whose cat it is."\n'
    schema = skeleton(Cat=record({"owner": {**record({"name": {"type": "string"}}), "x-doc": "An owner." + THEIRS}}))
    catalog = folder(tmp_path, schema, docs=docs)
    left = json.loads(catalog.without_covered_texts("1", json.dumps(schema)))
    types = folder(tmp_path, left, docs=docs).types("1")
    cat = types["Cat"]
    assert isinstance(cat, Object)
    assert (cat.fields[0].doc, types["CatOwner"].doc) == ("Whose cat it is.", "An owner." + THEIRS)


def test_a_row_without_a_type_is_refused_with_the_row_to_write(tmp_path: Path) -> None:
    catalog = folder(tmp_path, skeleton(), docs='[properties]\ntail = "The length."\n')
    with pytest.raises(CodegenError, match=r'the row tail has no type; write "Type.tail" for each type that has it'):
        catalog.types("1")
