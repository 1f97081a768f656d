"""Our edition goes in, the structure of the official schema.json comes out, and the differences between two structures.

This is the proof that reading schema.ts lost nothing and invented nothing: what the official tool would have written
is computed from our edition and compared definition by definition. Prose and order do not count.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..json_types import is_list, is_object
from .normalize import REF, Schema

_ANNOTATIONS: Final = (
    "x-extends",
    "x-omits",
    "x-open",
    "x-known",
    "x-constant",
    "x-category",
    "x-internal",
    "deprecated",
)


def as_official(edition: Schema) -> Schema:
    """The definitions as the official schema.json has them, in canonical order."""
    definitions: Schema = edition["$defs"]
    return {name: canonical(_reduce(schema, definitions)) for name, schema in definitions.items()}


def published(official: Schema) -> Schema:
    """The definitions of an official schema.json (of any dialect), without prose, in canonical order."""
    text = json.dumps(official.get("$defs") or official.get("definitions") or {})
    definitions: Schema = json.loads(text.replace("#/definitions/", REF))
    return {name: canonical(without_prose(schema)) for name, schema in definitions.items()}


def canonical(schema: Any, key: str = "") -> Any:
    """The same schema with every order that has no meaning made alphabetical."""
    if is_object(schema):
        return {name: canonical(schema[name], name) for name in sorted(schema)}
    if is_list(schema):
        items = [canonical(item) for item in schema]
        return sorted(items, key=json.dumps) if key in ("required", "enum", "anyOf", "type") else items
    return schema


def differences(ours: Schema, theirs: Schema) -> list[str]:
    """One line for each definition that the two do not share, or that differs, with the first place it differs at."""
    lines = [f"{name}: only in our edition" for name in sorted(ours.keys() - theirs.keys())]
    lines += [f"{name}: missing from our edition" for name in sorted(theirs.keys() - ours.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        alias = str(ours[name].get("$ref")).removeprefix(REF) if is_object(ours[name]) else ""
        # The official tool prints the alias of a single message as a copy of it.
        if theirs[name] not in (ours[name], ours.get(alias)):
            lines.append(_first_difference(ours[name], theirs[name], name))
    return lines


def _first_difference(ours: Any, theirs: Any, at: str) -> str:
    if is_object(ours) and is_object(theirs) and ours.keys() == theirs.keys():
        return next(
            _first_difference(ours[key], theirs[key], f"{at}.{key}") for key in ours if ours[key] != theirs[key]
        )
    if is_list(ours) and is_list(theirs) and len(ours) == len(theirs):
        return next(
            _first_difference(one, other, f"{at}.{index}")
            for index, (one, other) in enumerate(zip(ours, theirs, strict=True))
            if one != other
        )
    return f"{at}: our edition says {_short(ours)}, the official schema says {_short(theirs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else text[:157] + "…"


def without_prose(schema: Any) -> Any:
    """Drop descriptions, but not a property that is called `description`."""
    if is_object(schema):
        return {
            key: without_prose(value)
            for key, value in schema.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [without_prose(item) for item in schema] if is_list(schema) else schema


def _reduce(schema: Schema, definitions: Schema) -> Schema:
    official = schema.get("x-official")
    if is_object(official):
        return official
    reduced = {key: _reduce_key(key, value, definitions) for key, value in schema.items() if key not in _ANNOTATIONS}
    if "anyOf" in reduced:
        return _reduce_union(schema["anyOf"], definitions) | {key: reduced[key] for key in reduced if key != "anyOf"}
    if reduced == {"type": "object", "additionalProperties": True}:
        reduced["properties"] = {}  # What the official tool writes for `object`.
    target = definitions.get(str(reduced.get("$ref")).removeprefix(REF))
    if target is not None and _is_erased(target, definitions):
        return _reduce(target, definitions) | {key: reduced[key] for key in reduced if key != "$ref"}
    return reduced


def _reduce_key(key: str, value: Any, definitions: Schema) -> Any:
    match key:
        case "properties":
            return {name: _reduce(schema, definitions) for name, schema in value.items()}
        case "items" | "additionalProperties" if is_object(value):
            return _reduce(value, definitions)
        case "anyOf" | "allOf":
            return [_reduce(schema, definitions) for schema in value]
        case _:
            return value


def _is_erased(target: Schema, definitions: Schema) -> bool:
    """TypeScript forgets the name of an alias of a plain type, of an array and of another name at the place of use."""
    if "$ref" in target:
        return True
    return target.get("type") in ("string", "integer", "boolean", "array") and "enum" not in target


def _reduce_union(arms: list[Schema], definitions: Schema) -> Schema:
    """The arms with unions inside flattened, doubles dropped and the plain types gathered in one arm, as the tool does."""
    flat: list[Schema] = []
    for arm in arms:
        for schema in _flatten(arm, definitions):
            if schema not in flat:
                flat.append(schema)
    plain = [schema["type"] for schema in flat if schema.keys() == {"type"} and schema["type"] != "object"]
    rest = [schema for schema in flat if not (schema.keys() == {"type"} and schema["type"] != "object")]
    gathered = [{"type": plain if len(plain) > 1 else plain[0]}] if plain else []
    return {"anyOf": rest + gathered} if rest else gathered[0]


def _flatten(arm: Schema, definitions: Schema) -> list[Schema]:
    if arm.get("x-official") is False:
        return []
    target = definitions.get(str(arm.get("$ref")).removeprefix(REF), {})
    if "anyOf" in target:
        return [schema for inner in target["anyOf"] for schema in _flatten(inner, definitions)]
    return [_reduce(arm, definitions)]
