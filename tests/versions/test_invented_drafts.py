"""Conversions to drafts that no one has written, each with a change that a conversion must not overlook: what the
draft's schema refuses is never written, and what is lost is reported."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from support.conversions import Messages, Pair, chain_in, drafted
from support.matrices import long_after
from support.project import ROOT
from support.schemas.drafts import NEWEST, TEXT, Types, draft, record, ref, require

NUMBER: Final = {"type": "integer"}


def properties(types: Types, name: str) -> Types:
    result: Types = types[name]["properties"]
    return result


def optional(name: str, **added: Any) -> Callable[[Types], object]:
    return lambda types: properties(types, name).update(added)


def required(name: str, **added: Any) -> Callable[[Types], object]:
    return lambda types: require(types, name, **added)


def narrowed(name: str, wire: str, **keywords: Any) -> Callable[[Types], object]:
    return lambda types: properties(types, name)[wire].update(keywords)


def replaced(name: str, wire: str, schema: Any) -> Callable[[Types], object]:
    return lambda types: properties(types, name).update({wire: schema})


def needed(name: str, *wires: str) -> Callable[[Types], object]:
    return lambda types: types[name].setdefault("required", []).extend(wires)


def free(name: str, *wires: str) -> Callable[[Types], object]:
    return lambda types: types[name].update(required=[wire for wire in types[name]["required"] if wire not in wires])


def removed(name: str, wire: str) -> Callable[[Types], object]:
    def change(types: Types) -> None:
        del properties(types, name)[wire]
        types[name]["required"] = [other for other in types[name].get("required", []) if other != wire]

    return change


def closed(name: str) -> Callable[[Types], object]:
    return lambda types: types[name].update(additionalProperties=False)


def arms(name: str, *kept: str) -> Callable[[Types], object]:
    return lambda types: types.update({name: {"anyOf": [ref(arm) for arm in kept]}})


DEEP = record("inner", inner=record("least", least=record("x", x=TEXT)))
HALF = record("inner", inner=record(x=TEXT))
CHANGES: Final[Mapping[str, Callable[[Types], object]]] = {
    "a required object with a required property": required("Tool", policy=record("level", level=TEXT)),
    "a required object with required properties deep inside": required("CallToolRequestParams", policy=DEEP),
    "a required object that may be empty": required("Tool", policy=record(level=TEXT)),
    "a required object whose required object may be empty": required("ListToolsResult", policy=HALF),
    "a required text": required("TextContent", language=TEXT),
    "a required constant": required("Tool", form={"const": "tool", "type": "string"}),
    "a required list": required("Prompt", labels={"type": "array", "items": TEXT}),
    "a required map": required("Resource", labels={"type": "object", "additionalProperties": TEXT}),
    "a required one of several": required("Resource", owner={"anyOf": [TEXT, record("name", name=TEXT)]}),
    "an object that is required now": needed("Tool", "annotations"),
    "a text that is required now": needed("Tool", "title"),
    "metadata that is required now": needed("CallToolResult", "_meta"),
    "a text that is no longer required": free("Resource", "name"),
    "an object that is no longer required": free("CompleteRequestParams", "argument"),
    "an enumeration with fewer values": lambda types: types["LoggingLevel"].update(enum=["error", "warning"]),
    "an enumeration with other values": replaced(
        "Annotations", "audience", {"type": "array", "items": {"enum": ["x"]}}
    ),
    "a smaller maximum": narrowed("Annotations", "priority", maximum=0.2),
    "a larger minimum": narrowed("Annotations", "priority", minimum=0.8),
    "whole numbers": replaced("Annotations", "priority", NUMBER),
    "a number for a whole number": replaced("Resource", "size", {"type": "number"}),
    "a text for a number": replaced("Resource", "size", TEXT),
    "shorter texts": narrowed("Tool", "name", maxLength=3),
    "longer texts": narrowed("Prompt", "name", minLength=3),
    "a pattern": narrowed("Resource", "name", pattern="^[a-z]+$"),
    "a pattern of a property that may be absent": narrowed("Tool", "title", pattern="^[A-Z]"),
    "fewer items": narrowed("CallToolResult", "content", maxItems=1),
    "more items": narrowed("GetPromptResult", "messages", minItems=1),
    "more items of tools that need more": lambda types: (
        require(types, "Tool", policy=record("level", level=TEXT)),
        properties(types, "ListToolsResult")["tools"].update(minItems=2),
    ),
    "a union with fewer arms": arms("ContentBlock", "TextContent", "ImageContent"),
    "a union with one arm": arms("ContentBlock", "TextContent"),
    "a type that is a union now": replaced("TextContent", "text", {"anyOf": [TEXT, NUMBER]}),
    "a list for one": replaced("PromptMessage", "content", {"type": "array", "items": ref("ContentBlock")}),
    "one for a list": replaced("CallToolResult", "content", ref("ContentBlock")),
    "no other properties": closed("Tool"),
    "no other properties inside of a list of a list": closed("Annotations"),
    "no other properties of metadata": closed("RequestMetaObject"),
    "a property with a name that peers may use": optional("Tool", unknownToAll=NUMBER),
    "a required property with a name that peers may use": required("Tool", unknownToAll=NUMBER),
    "a property that is gone": removed("Tool", "description"),
    "a required property that is gone": removed("Tool", "inputSchema"),
    "a property that is gone in a union": removed("ImageContent", "mimeType"),
    "null besides": replaced("Tool", "title", {"anyOf": [TEXT, {"type": "null"}]}),
    "null besides, where it is required": replaced("TextContent", "text", {"anyOf": [TEXT, {"type": "null"}]}),
    "two kinds": replaced("Tool", "title", {"type": ["string", "integer"]}),
    "a constant with another value": narrowed("TextContent", "type", const="plain"),
    "a map of texts": replaced("Tool", "_meta", {"type": "object", "additionalProperties": TEXT}),
    "a map of short texts": replaced(
        "GetPromptRequestParams",
        "arguments",
        {"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}},
    ),
    "an object for a map": replaced("CallToolRequestParams", "arguments", record("a", a=TEXT)),
    "a map for an object": replaced("Tool", "annotations", {"type": "object", "additionalProperties": TEXT}),
    "anything": replaced("Tool", "title", {}),
}


def renamed(name: str, wire: str, other: str) -> Callable[[Types], object]:
    """A property with another name in a definition; in all definitions that have it if the name is `*`."""

    def change(types: Types) -> None:
        for key, defined in types.items():
            if name in ("*", key) and wire in defined.get("properties", {}):
                fields = defined["properties"].items()
                defined["properties"] = {other if field == wire else field: schema for field, schema in fields}
                defined["required"] = [other if field == wire else field for field in defined.get("required", [])]

    return change


def with_method(method: str, other: str) -> Callable[[Types], object]:
    """Another name for a method."""

    def change(types: Types) -> None:
        for defined in types.values():
            constant = defined.get("properties", {}).get("method", {})
            if constant.get("const") == method:
                constant["const"] = other

    return change


# What has another name in the draft: the row that states it, and the change.
RENAMES: Final[Mapping[str, tuple[str, Callable[[Types], object]]]] = {
    "Tool.inputSchema": ('at = "Tool.inputSchema"\nuse = "parameters"', renamed("Tool", "inputSchema", "parameters")),
    "Tool.name": ('at = "Tool.name"\nuse = "id"', renamed("Tool", "name", "id")),
    "CallToolResult.content": (
        'at = "CallToolResult.content"\nuse = "blocks"',
        renamed("CallToolResult", "content", "blocks"),
    ),
    "TextContent.text": ('at = "TextContent.text"\nuse = "value"', renamed("TextContent", "text", "value")),
    "ListToolsResult.tools": (
        'at = "ListToolsResult.tools"\nuse = "items"',
        renamed("ListToolsResult", "tools", "items"),
    ),
    "*.nextCursor": ('at = "*.nextCursor"\nuse = "next"', renamed("*", "nextCursor", "next")),
    "*.description": ('at = "*.description"\nuse = "about"', renamed("*", "description", "about")),
    "*.mimeType": ('at = "*.mimeType"\nuse = "mediaType"', renamed("*", "mimeType", "mediaType")),
    "tools/call": ('method = "tools/call"\nuse = "tools/invoke"', with_method("tools/call", "tools/invoke")),
    "notifications/message": (
        'method = "notifications/message"\nuse = "notifications/log"',
        with_method("notifications/message", "notifications/log"),
    ),
    "elicitation/create": (
        'method = "elicitation/create"\nuse = "elicitation/ask"',
        with_method("elicitation/create", "elicitation/ask"),
    ),
}


@pytest.mark.edges("Tool.name", "*.mimeType", "tools/call", "notifications/message")
@pytest.mark.long
@pytest.mark.parametrize("place", RENAMES)
def test_what_has_another_name_in_a_draft_is_carried_both_ways(tmp_path: Path, place: str) -> None:
    row, change = RENAMES[place]
    shutil.copytree(ROOT / "schema", tmp_path / "schema")
    with (tmp_path / "schema" / "conversions.toml").open("a") as rows:
        rows.write(f'\n[[rename]]\n{row}\nreason = "a test"\n')
    catalog = draft(change, root=tmp_path / "schema")
    name, other = place.rpartition(".")[2], row.rpartition(" = ")[2].strip('"')
    for source, target, names in ((NEWEST, "draft", {name: other}), ("draft", NEWEST, {other: name})):
        forth, back = chain_in(catalog, source, target), chain_in(catalog, target, source)
        met = outcomes(Pair(drafted(catalog, source), drafted(catalog, target), forth, back, names), 5)
        assert met["refused"] == 0 and met["whole"] > 0.9 * sum(met.values()), (source, target, met)


def outcomes(pair: Pair, count: int) -> dict[str, int]:
    met = {"whole": 0, "lost": 0, "refused": 0}
    messages = Messages(pair.source, seed=7)
    for row, other in pair.rows():
        for part, value in messages.of(row, count):
            met[pair.check(row, other, part, value)] += 1
    return met


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", long_after(10, CHANGES))
def test_messages_of_a_draft_and_of_the_revision_before_it_become_valid_or_are_refused(name: str) -> None:
    catalog = draft(CHANGES[name])
    sides = drafted(catalog, NEWEST), drafted(catalog)
    for source, target in (sides, sides[::-1]):
        ids = source.revision.id, target.revision.id
        forth, back = chain_in(catalog, *ids), chain_in(catalog, *ids[::-1])
        met = outcomes(Pair(source, target, forth, back, {}), 6)
        assert met["whole"] > sum(met.values()) / 4, (ids, met)
