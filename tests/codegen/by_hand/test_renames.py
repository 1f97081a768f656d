"""Rows that rename types, properties and methods: conversions carry what has another name, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, message, no_capability, record, skeleton, union

from mcp_codegen.conversion.derive import derive_step
from mcp_codegen.conversion.rules import ConversionRule, Conversions, read_conversions
from mcp_codegen.errors import OverlayError
from mcp_codegen.model.ir import Revision
from mcp_products.versions.conversion import Chain, ConversionReport
from mcp_products.versions.conversion.operations import Operations

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
Schema = dict[str, Any]
MESSAGE = ("Request", "Notification")
UP, DOWN = ("1", "2"), ("2", "1")


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def listing(name: str) -> Schema:
    return {"type": "array", "items": ref(name)}


def thing(wire: str, **more: Any) -> Schema:
    """A type in which one property has another name in the other revision, and that has itself in it."""
    fields = {wire: record({"type": TEXT}, "type"), "inner": ref("Thing"), "_meta": {"type": "object"}, **more}
    return record(fields, wire)


def revision(root: Path, id: str, method: str, result: Schema, **types: Schema) -> Revision:
    kind = "FetchResult" if method == "fetch" else "RetrieveResult"
    name = kind.replace("Result", "Request")
    schema = skeleton(**{name: message(method, record({"cursor": TEXT})), kind: result, **types})
    others = [item["properties"]["method"]["const"] for key, item in types.items() if key.endswith(MESSAGE)]
    return folder(root / id, schema, no_capability(method, *others), revision=id).revision(id)


def row(kind: str, place: str, use: str) -> ConversionRule:
    return ConversionRule("rename", place, {"use": use}, "a test", kind)


def chains(old: Revision, new: Revision, *rows: ConversionRule) -> Mapping[tuple[str, str], Chain]:
    conversions = Conversions(rows)
    result = {}
    for source, target in ((old, new), (new, old)):
        step = derive_step(source, target, conversions)
        result[source.id, target.id] = Chain(source.id, target.id, [Operations(asdict(step))])
    conversions.check_all_used()
    return result


RESULT = record(
    {
        "thing": ref("Thing"),
        "list": listing("Thing"),
        "map": {"type": "object", "additionalProperties": ref("Thing")},
        "either": {"anyOf": [ref("Thing"), TEXT]},
        "_meta": {"type": "object"},
    },
    "thing",
)


def written(wire: str) -> dict[str, Any]:
    """A value of `Thing` everywhere that it may stand, with metadata and properties that no revision names."""
    inner = {
        wire: {"type": "object", "own": [1]},
        "unknown": {"inputSchema": 1},
        "_meta": {"example.org/x": "inputSchema"},
    }
    whole = {**inner, wire: {"type": "x"}, "inner": inner}
    return {"thing": whole, "list": [inner, whole], "map": {"parameters": inner}, "either": inner, "_meta": {"a": 1}}


def test_a_renamed_property_is_carried_both_ways_wherever_its_type_stands(tmp_path: Path) -> None:
    old = revision(tmp_path, "1", "fetch", RESULT, Thing=thing("inputSchema"))
    new = revision(tmp_path, "2", "fetch", RESULT, Thing=thing("parameters"))
    both = chains(old, new, row("at", "Thing.inputSchema", "parameters"))
    for (source, target), before, after in ((UP, "inputSchema", "parameters"), (DOWN, "parameters", "inputSchema")):
        report = ConversionReport()
        value = written(before)
        converted = both[source, target].result("client_to_server", "fetch", value, report)
        assert converted == written(after)
        assert value == written(before) and not report.losses
        assert both[target, source].result("client_to_server", "fetch", converted) == value


def test_the_value_of_a_renamed_property_is_converted_as_well(tmp_path: Path) -> None:
    old = revision(tmp_path, "1", "fetch", record({"a": record({"x": TEXT, "gone": TEXT})}))
    new = revision(tmp_path, "2", "fetch", record({"b": record({"x": TEXT})}, "b"))
    both = chains(old, new, row("at", "FetchResult.a", "b"))
    report = ConversionReport()
    value = {"a": {"x": "1", "gone": "2"}}
    assert both[UP].result("client_to_server", "fetch", value, report) == {"b": {"x": "1"}}
    assert [(loss.path, loss.value) for loss in report.losses] == [("a.gone", "2")]
    assert both[UP].result("client_to_server", "fetch", {}) == {"b": {}}  # It is required now, and may be empty.


def test_a_row_holds_for_the_types_that_extend_its_type_and_an_asterisk_for_all(tmp_path: Path) -> None:
    def types(wire: str) -> dict[str, Schema]:
        base = record({wire: TEXT})
        child = record({wire: TEXT, "more": TEXT}) | {"x-extends": ["Base"]}
        return {"Base": base, "Child": child, "Other": record({wire: TEXT})}

    result = record({"base": ref("Base"), "child": ref("Child"), "other": ref("Other")})
    old = revision(tmp_path, "1", "fetch", result, **types("name"))
    new = revision(tmp_path, "2", "fetch", result, **types("label"))
    value = {key: {"name": key} for key in ("base", "child", "other")}
    of_family = chains(old, new, row("at", "Base.name", "label"))
    assert of_family[UP].result("client_to_server", "fetch", value) == {
        **{key: {"label": key} for key in ("base", "child")},
        "other": {},
    }
    of_all = chains(old, new, row("at", "*.name", "label"))
    assert of_all[UP].result("client_to_server", "fetch", value) == {key: {"label": key} for key in value}


def test_a_name_that_another_property_takes_over_is_not_mistaken_for_it(tmp_path: Path) -> None:
    old = revision(tmp_path, "1", "fetch", record({"name": TEXT}, "name"))
    new = revision(tmp_path, "2", "fetch", record({"id": TEXT, "name": TEXT}, "id"))
    both = chains(old, new, row("at", "FetchResult.name", "id"))
    assert both[UP].result("client_to_server", "fetch", {"name": "a"}) == {"id": "a"}
    report = ConversionReport()
    assert both[DOWN].result("client_to_server", "fetch", {"id": "a", "name": "shown"}, report) == {"name": "a"}
    assert [loss.value for loss in report.losses] == ["shown"]


def test_a_property_that_has_the_other_name_already_is_lost_and_reported(tmp_path: Path) -> None:
    old = revision(tmp_path, "1", "fetch", record({"a": TEXT}, "a"))
    new = revision(tmp_path, "2", "fetch", record({"b": TEXT}, "b"))
    up = chains(old, new, row("at", "FetchResult.a", "b"))[UP]
    report = ConversionReport()
    assert up.result("client_to_server", "fetch", {"b": "unknown", "a": "x"}, report) == {"b": "x"}
    assert [(loss.path, loss.value) for loss in report.losses] == [("b", "unknown")]


def test_a_renamed_method_is_found_by_either_name_and_its_params_and_results_are_converted(tmp_path: Path) -> None:
    old = revision(tmp_path, "1", "fetch", record({"a": TEXT}))
    new = revision(tmp_path, "2", "retrieve", record({"b": TEXT}))
    rows = (row("method", "fetch", "retrieve"), row("at", "FetchResult.a", "b"))
    both = chains(old, new, *rows)
    assert both[UP].method("client_to_server", "fetch") == "retrieve"
    assert both[DOWN].method("client_to_server", "retrieve") == "fetch"
    assert both[UP].method("client_to_server", "hello") == "hello"
    assert both[UP].removed_method("client_to_server", "fetch") is None
    assert both[UP].result("client_to_server", "fetch", {"a": "x"}) == {"b": "x"}
    assert both[DOWN].result("client_to_server", "retrieve", {"b": "x"}) == {"a": "x"}


def test_a_chain_follows_the_names_of_each_revision(tmp_path: Path) -> None:
    first = revision(tmp_path, "1", "fetch", record({"a": TEXT}))
    second = revision(tmp_path, "2", "retrieve", record({"b": TEXT}))
    third = revision(tmp_path, "3", "fetch", record({"c": TEXT}))
    names = [("FetchResult.a", "b"), ("FetchResult.c", "b")]
    rows = Conversions((row("method", "fetch", "retrieve"), *(row("at", place, use) for place, use in names)))
    steps = [derive_step(first, second, rows), derive_step(second, third, rows)]
    chain = Chain("1", "3", [Operations(asdict(step)) for step in steps])
    assert chain.method("client_to_server", "fetch") == "fetch"
    assert chain.result("client_to_server", "fetch", {"a": "x"}) == {"c": "x"}
    assert chain.removed_method("client_to_server", "fetch") is None


def test_a_message_inside_of_another_gets_the_other_name_of_its_method(tmp_path: Path) -> None:
    def types(method: str, name: str) -> dict[str, Schema]:
        return {"Asked": record({"ask": ref(name)}), name: message(method)}

    old = revision(tmp_path, "1", "fetch", record({"asked": ref("Asked")}), **types("ask", "AskRequest"))
    new = revision(tmp_path, "2", "fetch", record({"asked": ref("Asked")}), **types("query", "QueryRequest"))
    up = chains(old, new, row("method", "ask", "query"))[UP]
    value = {"asked": {"ask": {"method": "ask"}}}
    assert up.result("client_to_server", "fetch", value) == {"asked": {"ask": {"method": "query"}}}


def test_a_renamed_type_is_the_same_arm_of_a_union(tmp_path: Path) -> None:
    def types(name: str) -> dict[str, Schema]:
        one = record({"kind": TEXT | {"const": "one"}, "v": TEXT}, "kind")
        two = record({"kind": TEXT | {"const": "two"}}, "kind")
        return {name: one, "Two": two, "Either": union(name, "Two")}

    result = record({"either": ref("Either")})
    old = revision(tmp_path, "1", "fetch", result, **types("One"))
    new = revision(tmp_path, "2", "fetch", result, **types("First"))
    value = {"either": {"kind": "one", "v": "x"}}
    assert chains(old, new, row("type", "One", "First"))[UP].result("client_to_server", "fetch", value) == value


UNTRUE = [
    (row("at", "FetchResult.text", "number"), "no value of FetchResult.text in 1 is one of FetchResult.number in 2"),
    (row("at", "*.text", "number"), r"\[\[rename\]\] at = '\*.text' is untrue"),
    (row("method", "fetch", "notifications/got"), "fetch is a request in 1, and a notification in 2"),
    (row("type", "OldType", "NewType"), "OldType and NewType have no property in common"),
    (row("at", "FetchResult.absent", "number"), r"\[\[rename\]\] at = 'FetchResult.absent' is not used"),
    (row("at", "FetchResult.kept", "e"), "is not used"),
    (row("method", "absent", "retrieve"), r"\[\[rename\]\] method = 'absent' is not used"),
    (row("type", "Absent", "NewType"), r"\[\[rename\]\] type = 'Absent' is not used"),
]


@pytest.mark.parametrize(("rule", "text"), UNTRUE, ids=[rule.place for rule, _ in UNTRUE])
def test_a_row_that_is_untrue_or_unused_fails_by_its_name(tmp_path: Path, rule: ConversionRule, text: str) -> None:
    both = {"type": "object", "properties": {"x": TEXT}, "required": ["x"]}
    old_types = {
        "OldType": record({"kind": TEXT | {"const": "a"}}, "kind"),
        "Same": both,
        "E": union("OldType", "Same"),
    }
    new_types = {"NewType": record({"other": TEXT}, "other"), "Same": both, "E": union("NewType", "Same")}
    old_result = record({"text": TEXT, "kept": TEXT, "e": ref("E")})
    new_result = record({"number": NUMBER, "kept": TEXT, "e": ref("E")})
    got = {"GotNotification": message("notifications/got")}
    method = "retrieve" if rule.kind == "method" else "fetch"
    old = revision(tmp_path, "1", "fetch", old_result, **old_types)
    new = revision(tmp_path, "2", method, new_result, **new_types, **got)
    with pytest.raises(OverlayError, match=text):
        chains(old, new, rule)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[rename]]\nat = 'Tool.x'\nreason = 'a test'", "needs the other name as `use`"),
        ("[[rename]]\nat = 'x'\nuse = 'y'\nreason = 'a test'", "the type of a property before its name"),
        ("[[rename]]\nat = 'Tool.x'\nuse = 'x'\nreason = 'a test'", "needs another name"),
        ("[[rename]]\nat = 'Tool.*'\nuse = 'x'\nreason = 'a test'", "the type of a property before its name"),
        ("[[rename]]\nuse = 'x'\nreason = 'a test'", "needs `type` or `at` or `method` and `reason`"),
        ("[[rename]]\ntype = 'A'\nat = 'A.b'\nuse = 'x'\nreason = 'a test'", "needs `type` or `at` or `method`"),
        ("[[rename]]\nmethod = 'a'\nuse = 5\nreason = 'a test'", "needs the other name as `use`"),
        ("[[replace]]\ntype = 'A'\nuse = 'B'\nreason = 'a test'", "and a template as `with`"),
        ("[[default]]\nat = 'A.b'\nreason = 'a test'", "needs one of `use`, `provided` and `copy`"),
        ("[[method]]\nmethod = 'a'\nanswer = 'perhaps'\nreason = 'a test'", "needs an `answer`"),
        ("[[code]]\nmethod = 'a'\nuse = 'x'\nreason = 'a test'", "needs the number of an error"),
        ("rename = 5", "is not a table of rows"),
        ("[rename]\nat = 'A.b'", "is not a table of rows"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "conversions.toml"
    path.write_text(text)
    with pytest.raises(OverlayError) as refused:
        read_conversions(path)
    assert complaint in str(refused.value)
