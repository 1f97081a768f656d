"""The overlay: a row decides where the schema is silent, and fails as soon as it is unused or no longer true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.schemas.invented import folder, message, record, skeleton

from mcp_codegen.errors import CodegenError
from mcp_codegen.model.ir import Object
from mcp_codegen.model.overlay import read_docs

INLINE = record({"inner": record({"a": {"type": "string"}}, "a")}, "inner")


def row(table: str, **values: str) -> str:
    lines = [f"{key} = {value!r}" for key, value in ({"reason": "a test"} | values).items()]
    return "\n".join([f"\n[[{table}]]", *lines, ""])


def test_an_inline_object_gets_the_name_of_its_place_or_of_the_row(tmp_path: Path) -> None:
    plain = folder(tmp_path / "a", skeleton(Thing=INLINE)).revision("1").types
    assert isinstance(plain["ThingInner"], Object)
    name = row("name", at="Thing.inner", derived="ThingInner", use="Inner")
    named = folder(tmp_path / "b", skeleton(Thing=INLINE), name).revision("1").types
    assert "ThingInner" not in named and isinstance(named["Inner"], Object)


def test_the_same_inline_object_of_two_places_may_share_a_name_and_another_one_may_not(tmp_path: Path) -> None:
    names = row("name", at="A.inner", derived="AInner", use="Inner") + row(
        "name", at="B.inner", derived="BInner", use="Inner"
    )
    assert "Inner" in folder(tmp_path / "a", skeleton(A=INLINE, B=INLINE), names).revision("1").types
    other = record({"inner": record({"b": {"type": "string"}})})
    with pytest.raises(CodegenError, match="1: B.inner would be named Inner, the name of another type"):
        folder(tmp_path / "b", skeleton(A=INLINE, B=other), names).revision("1")


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        (row("name", at="Gone.inner", use="X"), "at = 'Gone.inner' is not used in any revision"),
        (
            row("name", at="Thing.inner", derived="Old", use="X"),
            "its `derived` is 'Old', the schema now gives 'ThingInner'",
        ),
        (row("name", at="Thing.inner", use="X"), "its `derived` is 'nothing', the schema now gives 'ThingInner'"),
        (
            row("capability", method="hello", use="server.nope"),
            "'hello' needs 'server.nope', which no capabilities type has",
        ),
        (row("capability", method="gone", use=""), "method = 'gone' is not used"),
        ("[[name]]\nat = 'Thing.inner'\nuse = 'X'\n", "needs `reason`"),
        ("[[nonsense]]\nat = 'x'\n", "unknown table 'nonsense'"),
        ("[[name]\n", "cannot be read"),
        (row("name", at="Thing.inner", derived="ThingInner", use="X", extra="1"), "unknown key 'extra'"),
        (row("name", at="Thing.inner", derived="ThingInner", use="X", only="1"), "`only` is a list of revisions"),
        ("[[name]]\nat = 'Thing.inner'\nuse = 'X'\nreason = 'r'\nonly = [{}]\n", "`only` is a list of revisions"),
        (
            "[[name]]\nat = ['Thing.inner']\nuse = 'X'\nreason = 'r'\n",
            "`at` and `reason` of a row of [[name]]",
        ),
        ("[name]\nat = 'Thing.inner'\n", "name is not a table of rows; write each row below [[name]]"),
    ],
)
def test_a_row_that_is_unused_untrue_or_unreadable_fails(tmp_path: Path, overlay: str, message: str) -> None:
    with pytest.raises(CodegenError) as caught:
        folder(tmp_path, skeleton(Thing=INLINE), overlay).check_overlay()
    assert message in str(caught.value)


def test_a_row_for_one_revision_wins_over_one_for_all(tmp_path: Path) -> None:
    schema = skeleton(FetchRequest=message("fetch"))
    general = row("capability", method="fetch", use="server.tools")
    special = general.replace("server.tools", "") + 'only = ["1"]\n'
    schemas = folder(tmp_path, schema, general + special)
    assert next(entry for entry in schemas.revision("1").methods if entry.method == "fetch").capability == ""


def test_a_row_for_a_revision_that_is_not_there_fails(tmp_path: Path) -> None:
    overlay = row("name", at="Thing.inner", derived="ThingInner", use="X") + 'only = ["7"]\n'
    with pytest.raises(CodegenError, match="names 7, which is not a revision"):
        folder(tmp_path, skeleton(Thing=INLINE), overlay).check_overlay()


def test_a_row_gives_a_message_in_no_union_its_direction(tmp_path: Path) -> None:
    schema = skeleton(AskRequest=message("ask"), WentNotification=message("notifications/went"))
    for union, name in (("ClientRequest", "Ask"), ("ClientNotification", "Went"), ("ServerNotification", "Went")):
        schema["$defs"][union]["anyOf"].remove({"$ref": f"#/$defs/{name}{union[6:]}"})
    rows = "".join(row("capability", method=method, use="") for method in ("ask", "notifications/went"))
    with pytest.raises(CodegenError, match=r"AskRequest .* a row of \[\[direction\]\] in overlay\.toml"):
        folder(tmp_path / "a", schema, rows).revision("1")
    rows += row("direction", type="AskRequest", use="server_to_client")
    rows += row("direction", type="WentNotification", use="client_to_server")
    schemas = folder(tmp_path / "b", schema, rows)
    methods = {entry.method: (entry.kind, entry.direction) for entry in schemas.revision("1").methods}
    assert methods["ask"] == ("request", "server_to_client")
    assert methods["notifications/went"] == ("notification", "client_to_server")
    schemas.check_overlay()


def test_a_row_of_a_direction_stops_no_draft_that_has_a_union_or_no_such_message(tmp_path: Path) -> None:
    rows = row("direction", type="LevelRequest", use="server_to_client")
    rows += row("direction", type="GoneRequest", use="server_to_client")
    schemas = folder(tmp_path, skeleton(), rows)
    directions = {entry.direction for entry in schemas.revision("1").methods if entry.type == "LevelRequest"}
    assert directions == {"client_to_server"}
    with pytest.raises(CodegenError, match="is not used in any revision"):
        schemas.check_overlay()


def test_a_row_of_a_direction_has_one_of_two_values(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match=r"\[\[direction\]\] has `use` = 'client_to_server' or 'server_to_client'"):
        folder(tmp_path, skeleton(), row("direction", type="LevelRequest", use="both")).revision("1")


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        ("types = 5\n", "[types] and [properties] are tables of texts"),
        ("[types]\nTool = 5\n", "the row Tool is not a text: 5"),
        ('[properties]\n"Tool.name" = ["A name."]\n', "the row Tool.name is not a text"),
        ('[plain]\nnames = "name"\n', '[plain] has names = ["name"]'),
    ],
)
def test_a_description_that_is_not_a_text_is_named(tmp_path: Path, docs: str, message: str) -> None:
    (tmp_path / "docs.toml").write_text(docs)
    with pytest.raises(CodegenError, match=re.escape(message)):
        read_docs(tmp_path / "docs.toml")
