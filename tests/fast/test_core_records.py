"""Messages that are read without models: the schemas, verdicts, messages of errors and JSON are those of the models."""

from __future__ import annotations

import json
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.schemas.mutated_instances import MutatingGenerator

import mcp_generated
from mcp_products.fast.records import (
    CoreRecord,
    as_model,
    may_require_input,
    read_as_record,
    result_constants,
    result_type,
)
from mcp_runtime.protocol.models import format_validation_error, plain_of, read_as_model, validator
from mcp_runtime.protocol.records import make_result
from mcp_runtime.protocol.revision import Request, Revision

SCHEMAS = Path(__file__).parents[2] / "schema"
REVISIONS = mcp_generated.REVISIONS
_NO_RULES = ("ref", "metadata", "cls")


def revision_of(id: str) -> Revision:
    revision: Revision = import_module(f"mcp_generated.{REVISIONS[id]}.methods").REVISION
    return revision


def records(id: str) -> list[type[CoreRecord]]:
    """Return the records of the params and of the results that have one."""
    of_rows: list[type[CoreRecord]] = []
    for row in revision_of(id).table("client_to_server").values():
        try:
            params = read_as_record(row)({"_meta": {}})
        except ValidationError:
            params = None
        of_rows += [type(params)] if isinstance(params, CoreRecord) else []
        if isinstance(row, Request) and issubclass(result_type(row), CoreRecord):
            of_rows.append(result_type(row))  # type: ignore[arg-type]
    return of_rows


def rules(schema: Any, definitions: dict[str, Any], within: tuple[str, ...] = ()) -> Any:
    """Return the part of a schema of pydantic that decides what is valid, with types in the place of references."""
    if isinstance(schema, dict):
        if schema.get("type") == "definitions":
            named = {definition["ref"]: definition for definition in schema["definitions"]}
            return rules(schema["schema"], definitions | named, within)
        if schema.get("type") == "definition-ref":
            name = schema["schema_ref"]
            return "circle" if name in within else rules(definitions[name], definitions, (*within, name))
        return {key: rules(value, definitions, within) for key, value in schema.items() if key not in _NO_RULES}
    if isinstance(schema, (list, tuple)):
        return [rules(item, definitions, within) for item in schema]
    return (
        (getattr(schema.func, "__name__", ""), schema.args, schema.keywords) if isinstance(schema, partial) else schema
    )


def comparable(model: Any, record: type[CoreRecord]) -> tuple[Any, Any]:
    model.model_rebuild()
    of_model, of_record = rules(model.__pydantic_core_schema__, {}), rules(record.schema, {})
    for name, field in model.model_fields.items():
        if (field.alias or name) in record.of_models:
            del of_model["schema"]["fields"][name]
    return json.loads(json.dumps(of_model, default=repr)), json.loads(json.dumps(of_record, default=repr))


@pytest.mark.parametrize("id", REVISIONS)
def test_a_record_has_the_schema_of_its_model(id: str) -> None:
    all_records = records(id)
    assert len(all_records) > 1
    for record in all_records:
        of_model, of_record = comparable(record.reference.load(), record)
        text = json.dumps(of_record).replace("_check_minimum", "greater_than_or_equal_validator")
        assert json.loads(text) == of_model
        assert list(of_record["schema"]["fields"]) == list(of_model["schema"]["fields"])


def outcome(read: Any, value: Any) -> Any:
    """Return the JSON of what is read, or the message of the error."""
    try:
        result = read(value)
    except ValidationError as error:
        return error.error_count(), format_validation_error(error)
    return result.model_dump(), {
        name: getattr(result, name) for name in ("name", "cursor", "uri") if name in vars(result)
    }


@pytest.mark.parametrize("id", REVISIONS)
def test_right_and_wrong_params_are_judged_as_the_model_judges_them(id: str) -> None:
    schema = json.loads((SCHEMAS / id / "schema.json").read_text())
    instances = MutatingGenerator(schema.get("$defs") or schema["definitions"], seed=20261123)
    wrong = 0
    for row in revision_of(id).table("client_to_server").values():
        for _ in range(40):
            request = instances.valid(row_type(schema, row.method))
            params: Any = request.get("params", {})  # type: ignore[union-attr]
            for value in (params, instances.mutated(params), {**params, "_meta": instances.mutated(params), "x": []}):
                expected = outcome(read_as_model(row), value)
                assert outcome(read_as_record(row), value) == expected
                wrong += isinstance(expected[0], int)
    assert wrong > 100


def row_type(schema: Any, method: str) -> str:
    """Return the name of the type of the message with a method."""
    definitions = schema.get("$defs") or schema["definitions"]
    return next(
        name
        for name, definition in definitions.items()
        if definition.get("properties", {}).get("method", {}).get("const") == method
    )


@pytest.mark.parametrize("id", REVISIONS)
def test_params_as_json_are_those_of_a_copy_but_share_their_values(id: str) -> None:
    schema = json.loads((SCHEMAS / id / "schema.json").read_text())
    instances = MutatingGenerator(schema.get("$defs") or schema["definitions"], seed=20261124)
    for row in revision_of(id).table("client_to_server").values():
        for _ in range(20):
            params = instances.valid(row_type(schema, row.method)).get("params", {})  # type: ignore[union-attr]
            value = {**params, "further": [[]]}  # type: ignore[dict-item]
            for params in (read_as_model(row)(value), read_as_record(row)(value)):
                plain = plain_of(params)
                assert plain == params.model_dump() and plain["further"] is value["further"]
                assert plain_of(params, with_further=False) == {
                    name: part for name, part in plain.items() if name not in (params.model_extra or {})
                }
                if isinstance(params, CoreRecord):
                    assert as_model(params).model_extra == params.model_extra


@pytest.mark.parametrize("id", REVISIONS)
def test_a_record_becomes_the_model_with_the_same_values(id: str) -> None:
    row = revision_of(id).table("client_to_server")["tools/call"]
    meta = {"progressToken": 5.0, "a": {"b": None}}
    meta |= {f"io.modelcontextprotocol/{name}": value for name, value in META.items()}
    value = {"name": "add", "arguments": {"a": 1}, "more": [1], "_meta": meta}
    record = read_as_record(row)(value)
    assert isinstance(record, CoreRecord)
    assert as_model(record) == read_as_model(row)(value)
    assert as_model(as_model(record)) == as_model(record)
    changed = record.model_copy(update={"name": "other"})
    assert as_model(changed) == as_model(record).model_copy(update={"name": "other"})
    assert record.model_extra == as_model(record).model_extra


META = {"protocolVersion": "x", "clientCapabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


@pytest.mark.parametrize("id", REVISIONS)
def test_constants_and_interim_results_are_those_of_the_models(id: str) -> None:
    for row in revision_of(id).table("client_to_server").values():
        if isinstance(row, Request):
            assert may_require_input(row) is (row.input_required is not None)
            constants = result_constants(row)
            if constants is not None:
                model: Any = row.result
                filled = {name: value for name, value in defaults(model).items() if value is not None}
                assert dict(constants) == filled


def defaults(model: Any) -> dict[str, Any]:
    """Return what the constructor of a result fills in, by property."""
    fields = model.model_fields.items()
    return {field.alias or name: field.json_schema_extra["fill"] for name, field in fields if field.json_schema_extra}


@pytest.mark.parametrize("id", REVISIONS)
def test_the_result_of_the_opening_request_is_the_same_json(id: str) -> None:
    revision = revision_of(id)
    opening: Any = getattr(revision.lifecycle, "initialize_request", None) or revision.lifecycle.discover
    info = {"name": "x", "version": "1", "title": "X", "icons": [{"src": "data:,", "sizes": ["any"]}]}
    fields = {"protocolVersion": id, "supportedVersions": [id], "capabilities": {"tools": {"x": 1}}, "serverInfo": info}
    fields |= {"cacheScope": "public", "instructions": "Use it."}
    assert make_result(opening, fields).model_dump() == opening.read_result(fields).model_dump()
    for wrong in ({}, {**fields, "capabilities": 1, "instructions": 1, "ttlMs": "x"}, {**fields, "ttlMs": -1}):
        assert outcome(partial(make_result, opening), wrong) == outcome(opening.read_result, wrong)


def test_params_with_what_only_a_model_has_are_models() -> None:
    row = revision_of("2026-07-28").table("client_to_server")["tools/call"]
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in META.items()}
    responses = {"a": {"action": "accept", "content": {"x": 1}}}
    params = read_as_record(row)({"name": "add", "_meta": meta, "inputResponses": responses})
    assert not isinstance(params, CoreRecord)
    assert params.model_dump()["inputResponses"] == responses
    plain = read_as_record(row)({"name": "add", "_meta": meta})
    assert isinstance(plain, CoreRecord)
    assert vars(plain).get("input_responses", plain.input_responses) is None  # type: ignore[attr-defined]


def test_the_validator_of_a_record_is_built_once() -> None:
    row = revision_of("2025-11-25").table("client_to_server")["ping"]
    record = type(read_as_record(row)({}))
    assert validator(record) is validator(record)
