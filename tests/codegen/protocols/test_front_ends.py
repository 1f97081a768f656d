"""Each format of a document becomes the same intermediate representation; what cannot be read is refused by place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.model.ir import Alias, Array, Object, Plain, Ref, Revision, Union, Values
from mcp_codegen.protocols.protocol import read_protocol

REF = "#/$defs/"
SIDES = '[sides]\nclient = "Editor"\nserver = "Agent"\n'


def run_command(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def read(folder: Path, document: Any, format: str, more: str = "") -> Revision:
    (folder / "document.json").write_text(json.dumps(document), encoding="utf-8")
    manifest = folder / "protocol.toml"
    text = f'name = "Small"\nversion = "1"\ndocument = "document.json"\nformat = "{format}"\n'
    manifest.write_text(text + more, encoding="utf-8")
    return read_protocol(manifest)[1]


def fields(revision: Revision, name: str) -> dict[str, tuple[Any, bool]]:
    defined = revision.types[name]
    assert isinstance(defined, Object)
    return {field.wire: (field.type, field.required) for field in defined.fields}


TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
BLOCK: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "text"}},
            "required": ["kind"],
            "allOf": [{"$ref": REF + "Text"}],
        },
        {"type": "object", "properties": {"kind": {"const": "none"}}, "required": ["kind"]},
    ]
}
MODE: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "anyOf": [
        {"title": "Form", "allOf": [{"$ref": REF + "Text"}]},
        {"title": "Url", "properties": {"url": {"type": "string", "format": "uri"}}},
    ],
}
DEFINITIONS: dict[str, Any] = {
    "Text": TEXT,
    "Block": BLOCK,
    "Mode": MODE,
    "Both": {
        "allOf": [{"$ref": REF + "Mode"}],
        "properties": {"extra": {"type": ["integer", "null"], "minimum": 0}},
    },
    "Level": {"anyOf": [{"const": "low"}, {"const": "high"}, {"type": "string"}]},
    "Closed": {"oneOf": [{"const": "a"}, {"const": "b", "description": "The second."}]},
    "SayRequest": {"properties": {"block": {"$ref": REF + "Block"}}, "x-method": "agent/say", "x-side": "agent"},
    "SayResponse": {"properties": {}, "type": "object", "x-method": "agent/say", "x-side": "agent"},
    "CancelNotification": {"properties": {"id": {"type": "integer"}}, "x-method": "$/cancel", "x-side": "both"},
}


def test_json_schema_gives_messages_and_alternatives_of_objects(tmp_path: Path) -> None:
    revision = read(tmp_path, {"$defs": DEFINITIONS}, "json-schema", SIDES)
    assert revision.types["Block"] == Alias("Block", Union((Ref("BlockText"), Ref("BlockNone")), "kind"))
    assert fields(revision, "BlockText") == {"text": (Plain("string"), True), "kind": (Values(("text",)), True)}
    assert set(fields(revision, "ModeUrl")) == {"id", "url"}
    assert revision.types["ModeForm"].extends == ("Text",)  # type: ignore[union-attr]
    both = revision.types["Both"]
    assert isinstance(both, Alias)
    assert both.type == Union((Ref("BothForm"), Ref("BothUrl")))
    assert set(fields(revision, "BothForm")) == {"text", "id", "extra"}
    bounded = revision.types["BothExtra"]
    assert isinstance(bounded, Alias)
    assert bounded.type == Plain("integer", minimum=0)
    level, closed = revision.types["Level"], revision.types["Closed"]
    assert isinstance(level, Alias)
    assert level.type == Plain("string", open_values=("low", "high"))
    assert isinstance(closed, Alias)
    assert closed.type == Values(("a", "b"))
    rows = [(row.kind, row.direction, row.name, row.params, row.result) for row in revision.methods]
    assert rows == [
        ("request", "client_to_server", "agent_say", "SayRequest", "SayResponse"),
        ("notification", "client_to_server", "cancel", "CancelNotification", None),
        ("notification", "server_to_client", "cancel", "CancelNotification", None),
    ]


def reference(name: str) -> dict[str, Any]:
    return {"kind": "reference", "name": name}


def base(name: str) -> dict[str, Any]:
    return {"kind": "base", "name": name}


META_MODEL: dict[str, Any] = {
    "metaData": {"version": "3"},
    "structures": [
        {"name": "Position", "properties": [{"name": "line", "type": base("uinteger"), "documentation": "The line."}]},
        {"name": "_Base", "properties": [{"name": "token", "type": base("string"), "optional": True}]},
        {
            "name": "Base",
            "extends": [reference("Position")],
            "mixins": [reference("_Base")],
            "properties": [
                {"name": "kind", "type": {"kind": "stringLiteral", "value": "base"}},
                {"name": "range", "type": {"kind": "tuple", "items": [base("uinteger"), base("uinteger")]}},
                {"name": "any", "type": reference("LSPAny"), "since": "3.1", "deprecated": "Use nothing."},
            ],
        },
    ],
    "enumerations": [
        {"name": "Closed", "type": base("uinteger"), "values": [{"name": "A", "value": 1}, {"name": "B", "value": 2}]},
        {"name": "Open", "type": base("string"), "values": [{"name": "A", "value": "a"}], "supportsCustomValues": True},
    ],
    "typeAliases": [
        {"name": "LSPAny", "type": {"kind": "or", "items": [reference("LSPObject"), base("string")]}},
        {"name": "LSPObject", "type": {"kind": "map", "key": base("string"), "value": reference("LSPAny")}},
    ],
    "requests": [
        {
            "method": "text/find",
            "params": reference("Position"),
            "result": {"kind": "or", "items": [{"kind": "array", "element": reference("Base")}, base("null")]},
            "messageDirection": "clientToServer",
            "serverCapability": "findProvider",
            "since": "3.2",
        },
        {"method": "shutdown", "result": base("null"), "messageDirection": "clientToServer"},
    ],
    "notifications": [{"method": "$/trace", "params": reference("Base"), "messageDirection": "both"}],
}


def test_a_meta_model_gives_messages_with_their_capabilities_and_versions(tmp_path: Path) -> None:
    revision = read(tmp_path, META_MODEL, "meta-model")
    assert set(fields(revision, "Base")) == {"line", "token", "kind", "range", "any"}
    assert fields(revision, "Base")["token"] == (Plain("string"), False)
    of_range = revision.types["BaseRangeTuple"]
    assert isinstance(of_range, Alias)
    assert of_range.type == Array(Ref("UInteger"), 2, 2)
    last = revision.types["Base"]
    assert isinstance(last, Object)
    assert (last.fields[-1].since, last.fields[-1].deprecated, last.fields[0].doc) == ("3.1", True, "The line.")
    assert last.extends == ("Position", "BaseBase"), "_Base has the name of Base in Python"
    result = revision.types["TextFindResult"]
    assert isinstance(result, Alias)
    assert result.type == Union((Array(Ref("Base")), Plain("null")))
    rows = [(row.name, row.direction, row.capability, row.since, row.result) for row in revision.methods]
    assert rows == [
        ("text_find", "client_to_server", "server.findProvider", "3.2", "TextFindResult"),
        ("shutdown", "client_to_server", "", "", None),
        ("trace", "client_to_server", "", "", None),
        ("trace", "server_to_client", "", "", None),
    ]


OPEN_RPC: dict[str, Any] = {
    "openrpc": "1.3.2",
    "info": {"title": "Pets", "version": "2.1"},
    "methods": [
        {
            "name": "list_pets",
            "params": [
                {"name": "limit", "required": True, "schema": {"type": "integer", "minimum": 1}},
                {"$ref": "#/components/contentDescriptors/Tag"},
            ],
            "result": {"name": "pets", "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}},
        },
        {"name": "get_pet", "params": [], "result": {"name": "pet", "schema": {"$ref": "#/components/schemas/Pet"}}},
        {"name": "log", "params": [{"name": "text", "schema": {"type": "string"}}]},
    ],
    "components": {
        "schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        "contentDescriptors": {"Tag": {"name": "tag", "schema": {"type": "string"}}},
    },
}


def test_open_rpc_gives_params_by_name(tmp_path: Path) -> None:
    revision = read(tmp_path, OPEN_RPC, "open-rpc")
    assert fields(revision, "ListPetsParams") == {
        "limit": (Plain("integer", minimum=1), True),
        "tag": (Plain("string"), False),
    }
    rows = [(row.kind, row.name, row.params, row.result) for row in revision.methods]
    assert rows == [
        ("request", "list_pets", "ListPetsParams", "ListPetsResult"),
        ("request", "get_pet", None, "Pet"),
        ("notification", "log", "LogParams", None),
    ]


LATE = [{"name": "a", "schema": True}, {"name": "b", "required": True, "schema": True}]


@pytest.mark.parametrize(
    ("format", "document", "text"),
    [
        ("json-schema", {"title": "none"}, "definitions"),
        ("json-schema", {"$defs": {"A": {"$ref": REF + "B"}}}, "B is referred to"),
        ("json-schema", {"$defs": {"A": {"$ref": "other.json#/B"}}}, "does not refer to a definition of this document"),
        ("json-schema", {"$defs": {"A": 3}}, "A is 3"),
        ("json-schema", {"$defs": {"A": {"properties": 3}}}, "cannot read"),
        ("json-schema", [], "must be a JSON object"),
        ("meta-model", {}, "structures"),
        ("meta-model", META_MODEL | {"typeAliases": [{"name": "X", "type": {"kind": "new"}}]}, "'new'"),
        (
            "meta-model",
            META_MODEL | {"structures": [{"name": "X", "extends": [reference("Y")], "properties": []}]},
            "Y",
        ),
        ("open-rpc", {}, "openrpc"),
        ("open-rpc", OPEN_RPC | {"methods": [{"name": "m", "params": [], "paramStructure": "by-hand"}]}, "by-hand"),
        (
            "open-rpc",
            OPEN_RPC | {"methods": [{"name": "m", "params": LATE, "paramStructure": "by-position"}]},
            "m has a required param after an optional one",
        ),
        (
            "open-rpc",
            OPEN_RPC | {"methods": [{"name": name, "params": LATE} for name in ("a/b", "a.b")]},
            "ABParams would be the name of a message's type, and is that of another message's type",
        ),
        (
            "open-rpc",
            OPEN_RPC | {"methods": [{"name": name, "params": []} for name in ("a/b", "a.b")]},
            "the method 'a.b' and that of 'a/b' would have the Python name 'a_b'; rename one",
        ),
        ("open-rpc", OPEN_RPC | {"methods": [{"name": "1a", "params": []}]}, "the method '1a' gives no Python name"),
        ("open-rpc", OPEN_RPC | {"methods": [{"$ref": "#/components/x"}]}, "components/x is not defined"),
        ("yaml", {}, "format"),
    ],
)
def test_what_cannot_be_read_is_refused_by_place(tmp_path: Path, format: str, document: Any, text: str) -> None:
    with pytest.raises(CodegenError, match=text) as caught:
        read(tmp_path, document, format)
    assert len(str(caught.value)) <= 500


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ('framing = "boxes"\n', "framing"),
        ('[sides]\nclient = "A"\n', "sides"),
        ('[sides]\nclient = "A"\nserver = "a"\n', "different names"),
        ('[cancel]\nmethod = "x"\n', "cancel"),
        ('colour = "red"\n', "colour"),
        ('params = "in-order"\n', "params"),
    ],
)
def test_a_manifest_with_a_wrong_key_is_refused(tmp_path: Path, more: str, text: str) -> None:
    with pytest.raises(CodegenError, match=text):
        read(tmp_path, OPEN_RPC, "open-rpc", more)


def test_an_empty_document_is_refused_and_one_with_a_method_alone_is_not(tmp_path: Path) -> None:
    empty = {"openrpc": "1.2.6", "info": {"title": "", "version": "1"}, "methods": []}
    with pytest.raises(CodegenError, match="Small: the document has no method and no type"):
        read(tmp_path, empty, "open-rpc")
    alone = read(tmp_path, {**empty, "methods": [{"name": "ping", "params": []}]}, "open-rpc")
    assert (len(alone.types), [row.method for row in alone.methods]) == (0, ["ping"])
    done = run_command("protocol", str(tmp_path / "protocol.toml"), "--output", str(tmp_path / "small"))
    assert done.exit_code == 0, done.output


def test_texts_of_a_document_never_become_syntax(tmp_path: Path) -> None:
    hostile = '"""\nimport os\nos.system("x")\n"""\\'
    document = json.loads(json.dumps(OPEN_RPC))
    document["methods"][0] |= {"description": hostile, "deprecated": True}
    document["methods"][1]["name"] = 'get"]\nimport os\n'
    document["components"]["schemas"]["Pet"] |= {"description": hostile}
    document["components"]["schemas"]["Pet"]["properties"][hostile] = {"const": hostile, "description": hostile}
    read(tmp_path, document, "open-rpc")
    result = run_command("protocol", str(tmp_path / "protocol.toml"), "--output", str(tmp_path / "pets"))
    assert result.exit_code == 0, result.output
    for path in (tmp_path / "pets").glob("*.py"):
        assert "import os" not in [line.strip() for line in path.read_text().splitlines()], path
        compile(path.read_text(), str(path), "exec")
    (tmp_path / "protocol.toml").write_text(
        'name = "a\\nimport os"\nversion = "1"\ndocument = "document.json"\nformat = "open-rpc"\n'
    )
    result = run_command("protocol", str(tmp_path / "protocol.toml"), "--output", str(tmp_path / "pets"))
    assert result.exit_code == 2, result.output


@pytest.mark.parametrize(
    ("properties", "attributes"),
    [
        ({"list": {"type": "array", "items": {}}}, {"list": "list_"}),
        ({"list": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}, {"list": "list_"}),
        (
            {"list": {}, "list_": {}, "of": {"type": "object", "additionalProperties": {"type": "array"}}},
            {"list": "list__"},
        ),
        ({"list": {}, "dict": {}}, {"list": "list", "dict": "dict_"}),
    ],
)
def test_an_attribute_named_list_does_not_hide_lists(
    tmp_path: Path, properties: dict[str, Any], attributes: dict[str, str]
) -> None:
    held = read(tmp_path, {"$defs": {"Held": {"type": "object", "properties": properties}}}, "json-schema").types[
        "Held"
    ]
    assert isinstance(held, Object)
    assert attributes.items() <= {field.wire: field.name for field in held.fields}.items()
    done = run_command("protocol", str(tmp_path / "protocol.toml"), "--output", str(tmp_path / "held"))
    assert done.exit_code == 0, done.output
    names: dict[str, Any] = {"__name__": "held.types"}
    exec(compile((tmp_path / "held" / "types.py").read_text(), "types.py", "exec"), names)
    assert names["Held"].model_fields.keys() == {field.name for field in held.fields}


def test_half_of_a_surrogate_pair_in_a_document_is_written_as_it_is(tmp_path: Path) -> None:
    definition = {"type": "object", "properties": {"odd": {"enum": ["\ud800"]}}}
    read(tmp_path, {"$defs": {"Held": definition}}, "json-schema")
    done = run_command("protocol", str(tmp_path / "protocol.toml"), "--output", str(tmp_path / "held"))
    assert done.exit_code == 0, done.output
    assert 'Literal["\\ud800"]' in (tmp_path / "held" / "types.py").read_text()
