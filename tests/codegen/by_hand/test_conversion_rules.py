"""The conversion of one small type to its neighbour's: the plan that follows from both, stated by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, message, no_capability, record, skeleton

from mcp_codegen.conversion.derive import derive_step
from mcp_codegen.conversion.rules import ConversionRule, Conversions
from mcp_codegen.conversion.steps import Step
from mcp_codegen.errors import OverlayError
from mcp_codegen.model.ir import Revision

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
THING: dict[str, Any] = {"$ref": "#/$defs/Thing"}


def revision(root: Path, id: str, **types: Any) -> Revision:
    fetch = message("fetch", record({"thing": THING}, "thing"))
    schema = skeleton(**{"FetchRequest": fetch, **types})
    methods = [
        item["properties"]["method"]["const"]
        for name, item in types.items()
        if name.endswith(("Request", "Notification"))
    ]
    return folder(root / id, schema, no_capability("fetch", *methods), revision=id).revision(id)


def row(table: str, place: str, **values: Any) -> ConversionRule:
    return ConversionRule(table, place, values, "a test")


def step(root: Path, old: Any, new: Any, *rows: ConversionRule) -> Step:
    """Return the step for a request with a `Thing` in its params, of these two types."""
    return derive_step(revision(root, "1", Thing=old), revision(root, "2", Thing=new), Conversions(rows))


def thing(*required: str, **properties: Any) -> dict[str, Any]:
    return record(properties, *required)


CONSTANT = {"type": "string", "const": "x"}
# The older type, the newer one, the rows, and the plan of `Thing`; None if nothing changes.
PLANS: list[tuple[Any, Any, list[ConversionRule], dict[str, Any] | None]] = [
    (thing("a", a=TEXT), thing("a", a=TEXT), [], None),
    (thing(a=TEXT), thing(), [], {"fields": {"a": ("drop", "drop Thing.a")}}),
    (thing(a=TEXT), thing(), [row("preserve", "Thing.a")], None),
    (thing(a=TEXT), thing(), [row("preserve", "*.a")], None),
    (thing(a=TEXT), thing(), [row("refuse", "Thing.a")], {"fields": {"a": ("refuse", "refuse Thing.a")}}),
    (
        thing("a", a=CONSTANT),
        thing(),
        [],
        {"fields": {"a": ("drop_default", "x", "drop Thing.a", True)}},
    ),
    (
        thing("a", a=TEXT),
        thing(),
        [row("default", "Thing.a", use="y")],
        {"fields": {"a": ("drop_default", "y", "drop Thing.a", True)}},
    ),
    (
        thing("a", a=TEXT),
        thing(),
        [row("default", "Thing.a", provided="clock")],
        {"fields": {"a": ("drop_default", None, "drop Thing.a", False)}},
    ),
    (thing(), thing("a", a=TEXT), [], {"drop_misfits": {"a": ("string", "misfit Thing.a")}, "require": True}),
    (thing(a=TEXT), thing("a", a=TEXT), [], {"require": {"a": "require Thing.a"}}),
    (thing("a", a=TEXT), thing(a=TEXT), [], None),
    (thing(a=CONSTANT), thing("a", a=CONSTANT), [], {"add": {"a": ("value", "x")}}),
    (thing(a=TEXT), thing("a", a=TEXT), [row("default", "Thing.a", use="y")], {"add": {"a": ("value", "y")}}),
    (
        thing(a=TEXT),
        thing("a", a=TEXT),
        [row("default", "Thing.a", provided="clock")],
        {"add": {"a": ("provided", "clock")}},
    ),
    (
        thing(a=TEXT),
        thing(a=NUMBER),
        [],
        {"fields": {"a": ("match", "integer", None, ("refuse", "refuse Thing.a"))}},
    ),
    (
        thing(a=TEXT),
        thing(a=NUMBER),
        [row("drop", "Thing.a")],
        {"fields": {"a": ("match", "integer", None, ("drop", "drop Thing.a"))}},
    ),
    (thing(a=NUMBER), thing(a={"type": "number"}), [], None),
    (
        thing(a={"type": "number"}),
        thing(a=NUMBER),
        [],
        {"fields": {"a": ("match", "integer", None, ("refuse", "refuse Thing.a"))}},
    ),
    (thing(a={"enum": ["x"]}), thing(a={"enum": ["x", "y"]}), [], None),
    (thing(a={"enum": ["x"]}), thing(a=TEXT), [], None),
    (
        thing(a={"enum": ["x", "y"]}),
        thing(a={"enum": ["x"]}),
        [],
        {"fields": {"a": ("match", ("values", "x"), None, ("refuse", "refuse Thing.a"))}},
    ),
    (
        thing(a=NUMBER),
        thing(a=NUMBER | {"minimum": 1, "maximum": 2}),
        [],
        {"fields": {"a": ("match", ("range", "integer", 1, 2), None, ("refuse", "refuse Thing.a"))}},
    ),
    (thing(a=NUMBER | {"minimum": 1, "maximum": 2}), thing(a=NUMBER), [], None),
    (thing(a={"type": "array", "items": TEXT}), thing(a={"type": "array", "items": TEXT}), [], None),
    (
        thing(a={"type": "array", "items": TEXT}),
        thing(a={"type": "array", "items": TEXT, "maxItems": 2}),
        [],
        {"fields": {"a": ("truncate", 2, None, "truncate Thing.a")}},
    ),
    (
        thing(a={"type": "array", "items": TEXT, "maxItems": 3}),
        thing(a={"type": "array", "items": TEXT, "maxItems": 3}),
        [],
        None,
    ),
    (
        thing(a={"type": "array", "items": TEXT, "maxItems": 4}),
        thing(a={"type": "array", "items": TEXT, "maxItems": 3}),
        [],
        {"fields": {"a": ("truncate", 3, None, "truncate Thing.a")}},
    ),
]


@pytest.mark.parametrize(("old", "new", "rows", "plan"), PLANS)
def test_the_plan_of_a_type_follows_from_both_revisions(
    tmp_path: Path, old: Any, new: Any, rows: list[ConversionRule], plan: dict[str, Any] | None
) -> None:
    derived = step(tmp_path, old, new, *rows)
    if plan is not None and plan.get("require") is True:
        plan = {**plan, "require": {"a": "require Thing.a"}}
    assert derived.types.get("Thing") == plan
    called = derived.methods.get("client_to_server", {}).get("fetch", {})
    assert bool(called.get("params")) is (plan is not None)
    assert all(used.used for used in rows)


def test_reasons_are_those_of_the_rows_or_name_the_revision(tmp_path: Path) -> None:
    derived = step(tmp_path, thing(a=TEXT, b=TEXT), thing(), row("refuse", "Thing.a"))
    assert derived.rules["refuse Thing.a"] == "a test"
    assert derived.rules["drop Thing.b"] == "2 does not define this property."
    assert (derived.source, derived.target) == ("1", "2")


@pytest.mark.parametrize(
    ("rows", "answer", "reason"),
    [
        ([], "refuse", "2 does not define this method."),
        ([row("method", "lost", answer="ignore")], "ignore", "a test"),
    ],
)
def test_a_method_that_the_target_lacks_is_answered_here(
    tmp_path: Path, rows: list[ConversionRule], answer: str, reason: str
) -> None:
    old = revision(tmp_path, "1", Thing=thing(), LostRequest=message("lost"))
    new = revision(tmp_path, "2", Thing=thing())
    derived = derive_step(old, new, Conversions(tuple(rows)))
    assert derived.removed_methods == {"client_to_server": {"lost": (answer, "method lost")}}
    assert derived.rules["method lost"] == reason
    assert derive_step(new, old, Conversions()).removed_methods == {}


def test_a_notification_that_the_target_lacks_is_ignored(tmp_path: Path) -> None:
    old = revision(tmp_path, "1", Thing=thing(), SeenNotification=message("notifications/seen"))
    removed = derive_step(old, revision(tmp_path, "2", Thing=thing()), Conversions()).removed_methods
    assert {answer for rows in removed.values() for answer, _ in rows.values()} == {"ignore"}
    assert {method for rows in removed.values() for method in rows} == {"notifications/seen"}


def test_arms_of_a_union_are_known_by_their_constant_and_refused_if_the_target_lacks_them(tmp_path: Path) -> None:
    def arm(kind: str) -> dict[str, Any]:
        return record({"kind": {"type": "string", "const": kind}, "v": TEXT}, "kind")

    arms = {name: arm(name.lower()) for name in ("One", "Two")}
    old = {**arms, "Thing": {"anyOf": [{"$ref": "#/$defs/One"}, {"$ref": "#/$defs/Two"}]}}
    new = {"One": record({"kind": {"type": "string", "const": "one"}}, "kind"), "Thing": {"$ref": "#/$defs/One"}}
    derived = derive_step(revision(tmp_path, "1", **old), revision(tmp_path, "2", **new), Conversions())
    plan = derived.types["FetchRequestParams"]["fields"]["thing"]
    assert plan == ("tag", "kind", {"one": ("type", "One"), "two": ("refuse", "refuse Two")})
    assert derived.types["One"] == {"fields": {"v": ("drop", "drop One.v")}}


def test_rows_are_found_for_the_place_before_those_for_all_and_unused_ones_are_refused() -> None:
    exact, by_name, by_type = row("drop", "Thing.a"), row("drop", "*.a"), row("drop", "Thing.*")
    conversions = Conversions((by_type, by_name, exact))
    assert conversions.at("drop", "Thing", "a") is exact
    assert conversions.at("drop", "Other", "a") is by_name
    assert conversions.at("drop", "Thing", "b") is by_type
    assert conversions.at("drop", "Other", "b") is None and conversions.at("refuse", "Thing", "a") is None
    assert conversions.has("drop", "Thing", "a") and not conversions.has("drop", "Thing", "b")
    conversions.check_all_used()
    with pytest.raises(OverlayError, match=r"\[\[drop\]\] at = 'Thing.c' is not used"):
        Conversions((row("drop", "Thing.c"),)).check_all_used()
    with pytest.raises(OverlayError, match="is in the file twice"):
        Conversions((row("drop", "Thing.c"), row("drop", "Thing.c")))
