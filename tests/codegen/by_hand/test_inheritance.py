"""What a type has of its bases: openness, properties and defaults, also through several bases and several levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, record, skeleton

from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse
from mcp_codegen.model.ir import Object, Revision

OPEN = "export interface Open { a?: string; [key: string]: unknown }\n"
CLOSED = "export interface Closed { c?: string }\n"


@pytest.mark.parametrize(
    ("declared", "is_open"),
    [
        ("interface X extends Open {}", True),
        ("interface X extends Closed {}", False),
        ("interface X extends Closed, Open {}", True),
        ("interface X extends Open, Closed {}", True),
        ("interface Y extends Open {}\nexport interface X extends Y {}", True),
        ("interface Y extends Closed, Open {}\nexport interface X extends Closed, Y {}", True),
        ("interface Y extends Closed {}\nexport interface Z extends Y {}\nexport interface X extends Z {}", False),
        ("interface Z extends Open {}\nexport interface Y extends Z {}\nexport interface X extends Y {}", True),
        ('interface X extends Omit<Open, "a"> {}', True),
        ('interface X extends Omit<Closed, "c"> {}', False),
        ("type Y = Record<string, unknown>;\nexport interface X extends Y {}", True),
    ],
)
def test_a_type_is_open_if_one_of_its_bases_is_at_any_level(declared: str, is_open: bool) -> None:
    definition = normalize(parse(f"{OPEN}{CLOSED}export {declared}\n", "schema.ts"), "1")["$defs"]["X"]
    assert definition.get("x-open", False) is is_open
    assert "additionalProperties" not in definition


def test_an_index_of_its_own_is_no_inherited_one() -> None:
    text = f"{OPEN}export interface X extends Open {{ [key: string]: number }}\n"
    definition = normalize(parse(text, "schema.ts"), "1")["$defs"]["X"]
    assert definition["additionalProperties"] == {"type": "integer"} and "x-open" not in definition


def test_members_of_further_bases_come_first_and_may_be_omitted() -> None:
    text = (
        "export interface A { a: string; x?: string }\nexport interface B extends A { b: number }\n"
        'export interface C extends Omit<B, "x" | "b"> { c: boolean }\n'
    )
    definition = normalize(parse(text, "schema.ts"), "1")["$defs"]["C"]
    assert list(definition["properties"]) == ["a", "c"]
    assert definition["required"] == ["a", "c"]
    assert (definition["x-extends"], definition["x-omits"]) == (["B"], ["x", "b"])


def default(at: str, value: str) -> str:
    return f"\n[[default]]\nat = '{at}'\nuse = '{value}'\nreason = 'a test'\n"


def revision_of(tmp_path: Path, rows: str, **types: Any) -> Revision:
    return folder(tmp_path, skeleton(**types), rows).revision("1")


def constant_of(revision: Revision, name: str) -> Any:
    defined = revision.types[name]
    assert isinstance(defined, Object)
    field = defined.field("mood")
    assert field is not None
    return field.constant


TEXT = {"type": "string"}
MOOD = record({"mood": TEXT}, "mood")


@pytest.mark.parametrize("bases", [["First", "Second"], ["Second", "First"], ["None_", "Second"]])
@pytest.mark.parametrize("levels", [1, 2])
def test_a_default_is_that_of_any_base_that_has_one(tmp_path: Path, bases: list[str], levels: int) -> None:
    types = {"First": MOOD, "Second": MOOD, "None_": record({"other": TEXT})}
    types["Top"] = MOOD | {"x-extends": bases}
    if levels == 2:
        types["Below"] = MOOD | {"x-extends": ["Top"]}
    revision = revision_of(tmp_path, default("Second.mood", "calm"), **types)
    assert constant_of(revision, "Below" if levels == 2 else "Top") == "calm"
    assert constant_of(revision, "First") is None


def test_a_default_of_the_type_itself_goes_before_those_of_its_bases(tmp_path: Path) -> None:
    types = {"First": MOOD, "Second": MOOD, "Top": MOOD | {"x-extends": ["First", "Second"]}}
    rows = default("First.mood", "calm") + default("Second.mood", "angry") + default("Top.mood", "own")
    revision = revision_of(tmp_path, rows, **types)
    assert [constant_of(revision, name) for name in ("First", "Second", "Top")] == ["calm", "angry", "own"]


def test_the_first_base_with_a_default_decides(tmp_path: Path) -> None:
    types = {"First": MOOD, "Second": MOOD, "Top": MOOD | {"x-extends": ["First", "Second"]}}
    rows = default("First.mood", "calm") + default("Second.mood", "angry")
    assert constant_of(revision_of(tmp_path, rows, **types), "Top") == "calm"
