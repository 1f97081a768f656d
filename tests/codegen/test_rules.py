"""The derivation rules on ten-line schemas: what follows, and what is an error instead of a guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, message, no_capability, record, skeleton, union

from mcp_codegen.errors import CodegenError
from mcp_codegen.model.ir import InterimResult, Method, Object, Union

REF = "#/$defs/"


def fetch(tmp_path: Path, overlay: str = no_capability("fetch"), **definitions: Any) -> Method:
    """The row of a request `fetch` among these definitions."""
    schema = skeleton(**{"FetchRequest": message("fetch")} | definitions)
    methods = folder(tmp_path, schema, overlay).revision("1").methods
    return next(row for row in methods if row.type == "FetchRequest")


def test_a_result_is_that_of_the_response_then_that_of_the_name_then_empty(tmp_path: Path) -> None:
    assert fetch(tmp_path / "a").result == "EmptyResult"
    assert fetch(tmp_path / "b", FetchResult=record({})).result == "FetchResult"
    response = record({"result": {"$ref": REF + "FetchResult"}}, "result")
    assert fetch(tmp_path / "c", FetchResult=record({}), FetchResultResponse=response).result == "FetchResult"


def test_a_further_type_in_the_response_is_interim_and_tells_itself_apart(tmp_path: Path) -> None:
    waiting = record({"state": {"type": "string", "x-known": ["still_waiting"]}}, "state")
    response = record({"result": union("FetchResult", "StillWaitingResult")}, "result")
    more = {"FetchResult": record({}), "FetchResultResponse": response}
    row = fetch(tmp_path / "a", StillWaitingResult=waiting, **more)
    assert row.interim == (InterimResult("StillWaitingResult", "state", "still_waiting"),)
    with pytest.raises(CodegenError, match="no property of StillWaitingResult has the known value 'still_waiting'"):
        fetch(tmp_path / "b", StillWaitingResult=record({"state": {"type": "string"}}), **more)


def test_params_are_hoisted_and_named_after_their_request(tmp_path: Path) -> None:
    inline = record({"url": {"type": "string"}}, "url")
    row = fetch(tmp_path, FetchRequest=message("fetch", inline))
    assert (row.params, row.params_required) == ("FetchRequestParams", True)


def test_inherited_params_have_the_name_of_the_request_that_declares_them(tmp_path: Path) -> None:
    base = record({"method": {"type": "string"}, "params": record({"cursor": {"type": "string"}})}, "method")
    inherits = message("fetch") | {"x-extends": ["PagedRequest"]}
    inherits["properties"] = {"params": base["properties"]["params"], **inherits["properties"]}
    schema = skeleton(FetchRequest=inherits)
    schema["$defs"]["PagedRequest"] = base
    methods = folder(tmp_path, schema, no_capability("fetch")).revision("1").methods
    assert next(row for row in methods if row.type == "FetchRequest").params == "PagedRequestParams"


def test_the_capability_is_what_the_method_spells(tmp_path: Path) -> None:
    assert fetch(tmp_path / "a", "", FetchRequest=message("tools/fetch")).capability == "server.tools"
    changed = skeleton(ToolsNotification=message("notifications/tools/list_changed"))
    changed["$defs"]["ClientNotification"]["anyOf"].pop()
    rows = folder(tmp_path / "b", changed).revision("1").methods
    assert next(row for row in rows if row.type == "ToolsNotification").capability == "server.tools.listChanged"


@pytest.mark.parametrize(
    ("definitions", "overlay", "message_"),
    [
        (
            {"FetchRequest": message("fetch")},
            "",
            "no capability can be derived for 'fetch': ServerCapabilities has no property",
        ),
        ({"LostThing": message("lost")}, "", "LostThing has the method 'lost' but is in none of ClientRequest"),
        (
            {
                "FetchRequest": message("fetch"),
                "FetchResultResponse": record({"result": union("EmptyResult", "Other")}),
                "FetchResult": record({}),
                "Other": record({}),
            },
            no_capability("fetch"),
            "no result can be derived for FetchRequest",
        ),
        (
            {"FetchRequest": record({"method": {"type": "string"}})},
            "",
            "FetchRequest has no constant `method` property",
        ),
        (
            {"FetchRequest": message("fetch", {"type": "string"})},
            "",
            "the params of FetchRequest are not an object type",
        ),
        ({"Thing": record({"a": {"$ref": REF + "Nowhere"}})}, "", "Thing.a refers to 'Nowhere'"),
        ({"Thing": record({"a": {"not": {}}})}, "", "Thing.a has a form that is not supported, with the keywords not"),
        ({"Thing": record({"a": 7})}, "", "Thing.a is int, not a schema"),
        (
            {"Thing": {"type": "object", "properties": [], "required": []}},
            "",
            "Thing must have an object as `properties` and a list as `required`",
        ),
        ({"Thing": {"enum": [None]}}, "", "Thing has values other than strings and integers"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_what_does_not_follow_is_an_error_that_says_what_is_missing(
    tmp_path: Path, definitions: dict[str, Any], overlay: str, message_: str
) -> None:
    with pytest.raises(CodegenError) as caught:
        folder(tmp_path, skeleton(**definitions), overlay).revision("1")
    assert message_ in str(caught.value)
    assert str(caught.value).startswith("1: ")


def test_a_schema_that_fits_no_lifecycle_is_refused(tmp_path: Path) -> None:
    schema = skeleton()
    schema["$defs"]["HelloRequest"] = message("greet")
    with pytest.raises(CodegenError, match="1: its methods fit no lifecycle, but must fit exactly one of handshake"):
        folder(tmp_path, schema, no_capability("greet")).revision("1")


def test_a_union_is_tagged_where_one_required_constant_tells_its_arms_apart(tmp_path: Path) -> None:
    def arm(value: str, *required: str) -> Any:
        return record({"kind": {"type": "string", "const": value}}, *required)

    types = (
        folder(
            tmp_path,
            skeleton(
                A=arm("a", "kind"),
                B=arm("b", "kind"),
                C=arm("c"),
                D=arm("a", "kind"),
                Tagged=union("A", "B"),
                Loose=union("A", "C"),
                Same=union("A", "D"),
            ),
        )
        .revision("1")
        .types
    )
    tags = {name: types[name].type.tag for name in ("Tagged", "Loose", "Same")}  # type: ignore[union-attr]
    assert tags == {"Tagged": "kind", "Loose": None, "Same": None}
    assert isinstance(types["Tagged"].type, Union)  # type: ignore[union-attr]


def test_a_base_stays_a_python_base_only_while_nothing_of_it_is_overridden(tmp_path: Path) -> None:
    base = record({"a": {"type": "string"}}, "a")
    unchanged = record({"a": {"type": "string"}, "b": {"type": "string"}}, "a", **{"x-extends": ["Base"]})
    changed = record({"a": {"type": "string", "const": "x"}}, "a", **{"x-extends": ["Base"]})
    types = folder(tmp_path, skeleton(Base=base, Kept=unchanged, Changed=changed)).revision("1").types
    assert isinstance(types["Kept"], Object) and types["Kept"].bases == ("Base",)
    assert (
        isinstance(types["Changed"], Object) and types["Changed"].bases == () and types["Changed"].extends == ("Base",)
    )
