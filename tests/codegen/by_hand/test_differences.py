"""What a difference of two small schemas is called and for whom it breaks, stated by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, message, no_capability, record, skeleton, union

from mcp_codegen.reports.changes import removable_from
from mcp_codegen.reports.compare import compare

FINE, LATER, BREAKS = "compatible", "deprecated", "breaking"
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
BOUNDED: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 5}
SIZED: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 5}


def thing(*required: str, **properties: Any) -> dict[str, Any]:
    return record(properties, *required)


def coded(pattern: str) -> dict[str, Any]:
    return TEXT | {"pattern": pattern}


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    return thing(*required, **properties) | {"additionalProperties": False}


def changes(tmp_path: Path, sender: str, old: Any, new: Any) -> list[tuple[str, str, str, str]]:
    """Return rule, place and severities for clients and for servers, where `Thing` is sent by this side."""
    revisions = []
    for id, defined in (("1", old), ("2", new)):
        holder = {"FetchRequest": message("fetch"), "FetchResult": record({})}
        reference = {"$ref": "#/$defs/Thing"}
        params = record({"thing": reference}, "thing")
        if sender == "client":
            holder["FetchRequest"] = message("fetch", params)
        elif sender == "server":
            holder["FetchResult"] = params
        schema = skeleton(**holder, Thing=defined)
        if sender == "server request":
            schema["$defs"]["AskRequest"] = message("ask", params)
            schema["$defs"]["ServerRequest"] = union("AliveRequest", "AskRequest")
        methods = ["fetch", "ask"] if sender == "server request" else ["fetch"]
        revisions.append(folder(tmp_path / id, schema, no_capability(*methods), revision=id).revision(id))
    reported = compare(*revisions)
    return [(item.rule, item.at, str(item.client), str(item.server)) for item in reported if item.at != "lifecycle"]


# The older type, the newer one, the rule and its place, and the severity for who sends it and for who receives it.
ROWS: list[tuple[Any, Any, str, str, tuple[str, str]]] = [
    (thing(), thing(a=TEXT), "field-added", "Thing.a", (FINE, FINE)),
    (thing(), thing("a", a=TEXT), "field-added-required", "Thing.a", (BREAKS, FINE)),
    (thing(a=TEXT), thing(), "field-removed", "Thing.a", (FINE, FINE)),
    (thing("a", a=TEXT), thing(), "field-removed-required", "Thing.a", (FINE, BREAKS)),
    (closed(a=TEXT), closed(), "field-removed", "Thing.a", (BREAKS, FINE)),
    (closed("a", a=TEXT), closed(), "field-removed-required", "Thing.a", (BREAKS, BREAKS)),
    (thing(a=TEXT), thing("a", a=TEXT), "field-required", "Thing.a", (BREAKS, FINE)),
    (thing("a", a=TEXT), thing(a=TEXT), "field-optional", "Thing.a", (FINE, BREAKS)),
    (thing(a=TEXT), thing(a=TEXT | {"deprecated": True}), "field-deprecated", "Thing.a", (LATER, LATER)),
    (thing(a=TEXT | {"deprecated": True}), thing(a=TEXT), "field-restored", "Thing.a", (FINE, FINE)),
    (thing(), thing() | {"deprecated": True}, "type-deprecated", "Thing", (LATER, LATER)),
    (thing() | {"deprecated": True}, thing(), "type-restored", "Thing", (FINE, FINE)),
    (thing(a=TEXT), thing(a={"anyOf": [TEXT, NUMBER]}), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a={"anyOf": [TEXT, NUMBER]}), thing(a=TEXT), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a=TEXT), thing(a=NUMBER), "value-changed", "Thing.a", (BREAKS, BREAKS)),
    (thing(a=NUMBER), thing(a={"type": "number"}), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a=NUMBER | {"minimum": 0}), thing(a=NUMBER), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a=NUMBER | {"maximum": 5}), thing(a=NUMBER | {"maximum": 4}), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a=NUMBER | {"maximum": 5}), thing(a=NUMBER | {"maximum": 6}), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a=NUMBER | {"minimum": 5}), thing(a=NUMBER | {"minimum": 6}), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a=BOUNDED), thing(a=BOUNDED | {"maximum": 6}), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a=BOUNDED), thing(a=BOUNDED | {"minimum": 2}), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a=SIZED), thing(a=SIZED | {"maxLength": 6}), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a=SIZED), thing(a=SIZED | {"minLength": 2}), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a=BOUNDED), thing(a=BOUNDED | {"type": "number"}), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a={"enum": ["x"]}), thing(a={"enum": ["x", "y"]}), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(a={"enum": ["x", "y"]}), thing(a={"enum": ["x"]}), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a={"enum": ["x", "y"]}), thing(a={"enum": ["x", "z"]}), "value-changed", "Thing.a", (BREAKS, BREAKS)),
    (thing(a=TEXT), thing(a={"enum": ["x"]}), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a=coded("^a+$")), thing(a=coded("^b+$")), "value-changed", "Thing.a", (BREAKS, BREAKS)),
    (thing(a=TEXT), thing(a=coded("^[0-9]{3}$")), "value-narrower", "Thing.a", (BREAKS, FINE)),
    (thing(a=coded("^x-")), thing(a=TEXT), "value-wider", "Thing.a", (FINE, BREAKS)),
    (thing(), TEXT, "type-form", "Thing", (BREAKS, BREAKS)),
]


@pytest.mark.parametrize(("old", "new", "rule", "at", "sides"), ROWS)
@pytest.mark.parametrize("sender", ["client", "server", "server request"])
def test_a_difference_has_its_rule_and_breaks_its_side(
    tmp_path: Path, sender: str, old: Any, new: Any, rule: str, at: str, sides: tuple[str, str]
) -> None:
    severities = sides if sender == "client" else sides[::-1]
    reported = [item for item in changes(tmp_path, sender, old, new) if item[1].startswith("Thing")]
    assert reported == [(rule, at, *severities)]


@pytest.mark.parametrize(
    ("added", "rule", "at", "sides"),
    [
        ({"FetchRequest": message("fetch")}, "method-required", "fetch (client to server)", (FINE, BREAKS)),
        ({"SeenNotification": message("notifications/seen")}, "method-added", "notifications/seen", (FINE, FINE)),
    ],
)
def test_a_method_that_is_new_or_removed_breaks_who_has_to_answer_or_to_send(
    tmp_path: Path, added: Any, rule: str, at: str, sides: tuple[str, str]
) -> None:
    methods = [definition["properties"]["method"]["const"] for definition in added.values()]
    without = folder(tmp_path / "1", skeleton(), revision="1").revision("1")
    with_it = folder(tmp_path / "2", skeleton(**added), no_capability(*methods), revision="2").revision("2")
    forth = {item.rule: item for item in compare(without, with_it) if item.at.startswith(at)}
    assert (str(forth[rule].client), str(forth[rule].server)) == sides
    back = {item.rule: item for item in compare(with_it, without) if item.at.startswith("fetch")}
    if rule == "method-required":
        removed = back["method-removed"]
        assert (str(removed.client), str(removed.server)) == (BREAKS, FINE)


def test_an_alias_that_no_message_has_breaks_nobody_and_an_object_both(tmp_path: Path) -> None:
    old = skeleton(Group=union("EmptyResult"), Stray=thing(a=TEXT))
    new = skeleton(Group=union("EmptyResult", "HelloResult"), Stray=thing(a=NUMBER))
    revisions = [folder(tmp_path / id, schema, revision=id).revision(id) for id, schema in (("1", old), ("2", new))]
    sides = {item.at: (str(item.client), str(item.server)) for item in compare(*revisions)}
    assert sides["Group"] == (FINE, FINE)
    assert sides["Stray.a"] == (BREAKS, BREAKS)


@pytest.mark.parametrize(
    ("revision_id", "day"),
    [("2026-07-28", "2027-07-28"), ("2024-02-29", "2025-02-28"), ("2024-02-28", "2025-02-28"), ("draft", "")],
)
def test_what_is_deprecated_may_go_a_year_later(revision_id: str, day: str) -> None:
    assert removable_from(revision_id) == day
