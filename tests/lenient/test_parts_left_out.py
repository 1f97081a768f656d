"""Every list and every optional property of every type, with one wrong part: what is left out, and what refuses all."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError
from support.project import ROOT, package
from support.schemas.samples import sample

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.model.ir import Alias, Array, Field, Object, Plain, Ref, Revision, Type, Union
from mcp_generated import REVISIONS
from mcp_products.lenient.reading import MAX_LEFT_OUT, read_leniently
from mcp_runtime.protocol.lenient import LeftOut, Reading
from mcp_runtime.protocol.models import validator

WRONG = [[None]]  # A list in a list: no type of the protocol has one, but for those that take any JSON.


def aliased(written: Type, revision: Revision) -> Type:
    while isinstance(written, Ref) and isinstance(alias := revision.types[written.name], Alias):
        written = alias.type
    return written


def takes_anything(written: Type, revision: Revision) -> bool:
    written = aliased(written, revision)
    return isinstance(written, Plain) and written.kind == "any"


def has_items(written: Type, revision: Revision) -> bool:
    written = aliased(written, revision)
    return isinstance(written, Array) or (
        isinstance(written, Union) and any(has_items(arm, revision) for arm in written.arms)
    )


def objects(revision: Revision) -> Iterator[tuple[Object, dict[str, Any]]]:
    """The types that are objects, each with its smallest instance."""
    for definition in revision.types.values():
        if isinstance(definition, Object):
            instance = sample(Ref(definition.name), revision)
            validator(getattr(package(revision.id, "types"), definition.name))(instance)
            yield definition, instance


def fields(id: str) -> Iterator[tuple[Any, Object, Field, dict[str, Any], Revision]]:
    revision = SchemaCatalog(ROOT / "schema").revision(id)
    for definition, instance in objects(revision):
        for field in definition.fields:
            if not takes_anything(field.type, revision):
                yield getattr(package(id, "types"), definition.name), definition, field, instance, revision


def read(shape: Any, value: Any, reading: Reading = Reading.RESULT) -> tuple[Any, list[LeftOut]]:
    left_out: list[LeftOut] = []
    return read_leniently(shape, value, left_out, reading), left_out


@pytest.mark.parametrize("id", REVISIONS)
def test_a_wrong_optional_property_costs_itself_and_any_other_the_object(id: str) -> None:
    left, refused = 0, 0
    for shape, definition, field, instance, revision in fields(id):
        value = {**instance, field.wire: "no list" if has_items(field.type, revision) else WRONG}
        with pytest.raises(ValidationError):
            validator(shape)(value)
        if (field.required and field.default is None) or field.essential:
            with pytest.raises(ValidationError, match=field.wire):
                read(shape, value)
            refused += 1
        else:
            result, left_out = read(shape, value)
            assert [part.place for part in left_out] == [field.wire], definition.name
            assert left_out[0].reason and getattr(result, field.name) == field.default
            left += 1
    assert left > 40 and refused > 40


@pytest.mark.parametrize("id", REVISIONS)
def test_null_is_as_absent_for_every_optional_property_also_beside_a_wrong_one(id: str) -> None:
    for shape, definition, field, instance, _ in fields(id):
        if not field.required or field.default is not None:
            result, left_out = read(shape, {**instance, field.wire: None})
            assert left_out == [] and getattr(result, field.name) == field.default, definition.name


@pytest.mark.parametrize("id", REVISIONS)
def test_null_is_a_list_without_items_where_a_list_is_required(id: str) -> None:
    seen: list[str] = []
    for shape, definition, field, instance, _ in fields(id):
        if isinstance(field.type, Array) and field.required and field.default is None:
            value = {**instance, field.wire: None}
            with pytest.raises(ValidationError):
                validator(shape)(value)
            result, left_out = read(shape, value)
            assert left_out == [] and getattr(result, field.name) == [], definition.name
            with pytest.raises(ValidationError):
                read(shape, value, Reading.REQUEST)
            seen.append(f"{definition.name}.{field.wire}")
    assert {"ListToolsResult.tools", "ListRootsResult.roots", "GetPromptResult.messages"} <= set(seen)
    assert {"ListPromptsResult.prompts", "ReadResourceResult.contents", "CallToolResult.content"} <= set(seen)


@pytest.mark.parametrize("id", REVISIONS)
def test_a_wrong_item_of_every_list_costs_itself(id: str) -> None:
    seen: list[str] = []
    for shape, definition, field, instance, revision in fields(id):
        arms = field.type.arms if isinstance(field.type, Union) else (field.type,)
        lists = [arm for arm in arms if isinstance(arm, Array) and not takes_anything(arm.items, revision)]
        for written in lists:
            good = sample(written.items, revision)
            value = copy.deepcopy({**instance, field.wire: [good, WRONG, good]})
            with pytest.raises(ValidationError):
                validator(shape)(value)
            if field.essential:
                with pytest.raises(ValidationError):
                    read(shape, value)
                continue
            result, left_out = read(shape, value)
            whole = validator(shape)({**instance, field.wire: [good, good]})
            assert result == whole, definition.name
            assert [part.place for part in left_out] == [f"{field.wire}[1]"], definition.name
            seen.append(f"{definition.name}.{field.wire}")
    assert {"ListToolsResult.tools", "ListRootsResult.roots", "GetPromptResult.messages"} <= set(seen)
    assert {"ListPromptsResult.prompts", "ReadResourceResult.contents", "CallToolResult.content"} <= set(seen)


@pytest.mark.parametrize("id", REVISIONS)
def test_an_item_whose_required_part_is_wrong_is_named(id: str) -> None:
    types = package(id, "types")
    schema = {"type": "object"}
    tools = [{"name": name, "inputSchema": schema} for name in ("a", "b", "c")]
    tools[1]["inputSchema"] = {"type": "array"}
    value = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    result, left_out = read(types.ListToolsResult, value)
    assert [tool.name for tool in result.tools] == ["a", "c"]
    assert len(left_out) == 1 and str(left_out[0]).startswith("tools[1] 'b': inputSchema.type: ")


def test_a_choice_that_is_left_out_does_not_move_the_names_of_the_others() -> None:
    types = package("2025-11-25", "types")
    schema = {"type": "string", "enum": ["a", 5, "c"], "enumNames": ["A", "B", "C"]}
    result, left_out = read(types.LegacyTitledEnumSchema, schema)
    assert (result.enum, result.enum_names) == (["a", "c"], None)
    assert [part.place for part in left_out] == ["enum[1]"]


def test_a_list_above_its_limit_is_cut_off_with_a_report() -> None:
    types = package("2026-07-28", "types")
    value = {"resultType": "complete", "completion": {"values": [str(number) for number in range(101)]}}
    result, left_out = read(types.CompleteResult, value)
    assert result.completion.values == [str(number) for number in range(100)]
    assert [str(part) for part in left_out] == ["completion.values: there are 101 items, and 100 is the limit"]


def test_what_is_left_out_has_a_limit_and_unknown_content_in_it_stays_in_its_place() -> None:
    types = package("2025-11-25", "types")
    many = [{"type": "text"}] * MAX_LEFT_OUT
    ends = [{"type": "new", "n": 1}, *many, {"type": "new", "n": 2}, {"type": "text", "text": "z"}]
    result, left_out = read(types.CallToolResult, {"content": ends})
    assert [getattr(block, "n", None) for block in result.content] == [1, 2, None] and len(left_out) == MAX_LEFT_OUT
    with pytest.raises(ValidationError, match=f"{MAX_LEFT_OUT} other parts cannot be read either"):
        read(types.CallToolResult, {"content": [*ends, {"type": "text"}]})


def test_unknown_content_of_an_item_that_is_left_out_replaces_nothing_else() -> None:
    types = package("2025-11-25", "types")
    text = {"type": "text", "text": "kept"}
    messages = [{"role": "robot", "content": {"type": "new"}}, {"role": "user", "content": text}]
    result, left_out = read(types.GetPromptResult, {"messages": messages})
    assert [message.content.text for message in result.messages] == ["kept"] and len(left_out) == 1


def test_texts_of_content_and_long_names_are_not_reported() -> None:
    types = package("2025-11-25", "types")
    blocks = [{"type": "text", "text": "a secret", "annotations": 5}, {"type": "image", "data": "secret"}]
    _, left_out = read(types.CallToolResult, {"content": blocks})
    assert "secret" not in " ".join(map(str, left_out)) and len(left_out) == 2
    tools = [{"name": "n\n\x1b[31m" * 100_000, "inputSchema": 5}]
    _, left_out = read(types.ListToolsResult, {"tools": tools}, Reading.PAGE)
    assert len(str(left_out[0])) < 700 and str(left_out[0]).isprintable()


def test_a_list_without_any_readable_item_is_an_error_but_for_a_page_of_a_list() -> None:
    types = package("2025-11-25", "types")
    with pytest.raises(ValidationError, match="no item can be read: content.0.: text: Field required"):
        read(types.CallToolResult, {"content": [{"type": "text"}]})
    result, left_out = read(types.ListToolsResult, {"tools": [{}], "nextCursor": "b"}, Reading.PAGE)
    assert (result.tools, result.next_cursor, len(left_out)) == ([], "b", 1)


def test_of_a_request_no_property_is_left_out_and_no_unknown_content_kept() -> None:
    types = package("2025-11-25", "types")
    messages = [
        {"role": "user", "content": {"type": "text", "text": "a"}},
        {"role": "user", "content": {"type": "new"}},
    ]
    params = {"messages": messages, "maxTokens": 1}
    result, left_out = read(types.CreateMessageRequestParams, params, Reading.REQUEST)
    assert len(result.messages) == 1 and left_out[0].place == "messages[1]"
    for wrong in ({"temperature": "hot"}, {"messages": messages[1:]}):
        with pytest.raises(ValidationError):
            read(types.CreateMessageRequestParams, {**params, **wrong}, Reading.REQUEST)
