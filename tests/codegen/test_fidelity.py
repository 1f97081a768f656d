"""The generated types accept what the official schema accepts and refuse what it refuses; jsonschema is the judge."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic import TypeAdapter, ValidationError
from support.project import OFFICIAL, ROOT, needs_official, official, package
from support.schemas.mutated_instances import MutatingGenerator

from mcp_codegen.testkit.messages import Json
from mcp_runtime.protocol.models import validator

MUTATIONS = 6_500
EXAMPLES = sorted(OFFICIAL.glob("*/examples/*/*.json"))

# Where the generated types accept more than the official schema.json, and why. docs/fidelity.md tells it to users.
POLICIES = ("null for an optional property", "an error of the official schema corrected")


def definitions(schema: dict[str, Any]) -> dict[str, Any]:
    types: dict[str, Any] = schema.get("$defs") or schema["definitions"]
    return types


@cache
def judge(revision: str, name: str, ours: bool = False) -> Draft7Validator | Draft202012Validator:
    """A jsonschema validator for one definition of the official schema, or of our edition of it."""
    schema = json.loads((ROOT / "schema" / revision / "schema.json").read_text()) if ours else official(revision)
    key = "$defs" if "$defs" in schema else "definitions"
    validator = Draft202012Validator if key == "$defs" else Draft7Validator
    return validator({"$ref": f"#/{key}/{name}", key: schema[key]})


def generated(revision: str, name: str) -> Any:
    """The generated type of a definition; one has another name in Python, as overlay.toml says."""
    types = package(revision, "types")
    return getattr(types, {"Annotated": "AnnotatedBase"}.get(name, name))


def dumped(shape: Any, value: Any) -> Json:
    return json.loads(TypeAdapter(shape).dump_json(value))


@needs_official
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_official_example_is_read_and_written_back_equal(path: Any) -> None:
    revision, name = path.parent.parent.parent.name, path.parent.name
    text = path.read_text(encoding="utf-8")
    shape = generated(revision, name)
    assert dumped(shape, validator(shape)(json.loads(text))) == json.loads(text)


@needs_official
def test_all_official_examples_are_there() -> None:
    assert len(EXAMPLES) == 129


@pytest.mark.edges("2026-07-28")
@pytest.mark.long
@needs_official
def test_mutated_instances_are_judged_as_the_official_schema_judges_them(revision: str) -> None:
    names = sorted(definitions(official(revision)))
    instances = MutatingGenerator(definitions(official(revision)), seed=20261120)
    verdicts: Counter[str] = Counter()
    for number in range(MUTATIONS):
        name = names[number % len(names)]
        valid = instances.valid(name)
        assert judge(revision, name).is_valid(valid), f"the generator of this test made an invalid {name}: {valid}"
        assert verdict(revision, name, valid) == "both accept"
        verdicts[verdict(revision, name, instances.mutated(valid))] += 1
    assert verdicts.keys() <= {"both accept", "both refuse", *POLICIES}, verdicts
    assert min(verdicts["both accept"], verdicts["both refuse"]) > MUTATIONS / 10, verdicts
    assert verdicts.total() >= 6_000


def verdict(revision: str, name: str, instance: Json) -> str:
    """How the two agree on an instance; where only the generated type accepts it, the policy that says so."""
    expected = judge(revision, name).is_valid(instance)
    shape = generated(revision, name)
    try:
        back = dumped(shape, validator(shape)(instance))
    except ValidationError:
        return "both refuse" if not expected else f"false reject of {name}: {json.dumps(instance)}"
    if back == instance and expected:
        return "both accept"
    if back != instance and (
        without_nulls(back) != without_nulls(instance) or not judge(revision, name, ours=True).is_valid(back)
    ):
        return f"lossy: {name}: {json.dumps(instance)} became {json.dumps(back)}"
    if back != instance and judge(revision, name).is_valid(back):
        return POLICIES[0]
    if judge(revision, name, ours=True).is_valid(back):
        return POLICIES[1]
    return f"false accept of {name}: {json.dumps(instance)}"


def without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value
