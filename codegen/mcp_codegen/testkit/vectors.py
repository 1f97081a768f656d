"""Test vectors as JSON lines: instances of all messages with verdicts and near misses, short conversations, and what
instances are in other revisions.

The verdicts are those of the schema alone. `line_schema()` describes the lines.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]

from ..catalog import SchemaCatalog
from ..errors import CodegenError, Json, is_list, is_object
from ..importer.references import REF, Schema
from ..model.ir import Method, Object, Revision
from .messages import InstanceGenerator, MessageFactory

FORMAT: Final = 1
_TRIES: Final = 50
# Changes of a value, by the class of the error that they are if the schema refuses them.
WHY: Final = ("missing", "null", "type", "literal", "range")
_WRONG: Final[Sequence[Json]] = ([], {}, "x", 7, 1.5, True)
_BOUNDS: Final = ("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength")
_POLICY: Final = "null"  # Readers may take null for an absent property, if they say so.
_TIME: Final = datetime.fromtimestamp(0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
# Texts that the prose gives a form, and that have no `format` in the schema.
_TEXTS: Final[Mapping[str, Json]] = {
    **dict.fromkeys(("lastModified", "createdAt", "lastUpdatedAt"), _TIME),
    "resultType": "complete",
}

Line = dict[str, Any]
Place = tuple[str | int, ...]
_GONE: Final = object()
# -P: the current folder hides no module.
_CONVERT: Final = (sys.executable, "-P", "-m", "mcp_products.tooling.convert")
_SECONDS: Final = 300
CAPABILITIES: Final[Mapping[str, Any]] = {}  # What the client of the session has declared.


def vectors(revision: Revision, normalized: Schema, seed: int, count: int) -> Iterator[Line]:
    """Yield a header, then `count` valid instances of every message and result with near misses of them, then
    conversations."""
    head = {"kind": "header", "format": FORMAT, "revision": revision.id, "sha256": revision.sha256, "seed": seed}
    yield {**head, "policies": [_POLICY]}
    factory = MessageFactory(revision, normalized, seed)
    writer = _Instances(revision, normalized["$defs"], seed, count)
    for part in _parts(revision):
        yield from ({"kind": "instance", "revision": revision.id, **line} for line in writer.of(part))
    for number, steps in enumerate(_conversations(factory), 1):
        yield {"kind": "conversation", "revision": revision.id, "id": f"conversation-{number}", "steps": steps}


def canonical(value: Json) -> str:
    """Return a value as JSON with sorted keys, without spaces, and with the shortest form of each number."""
    return json.dumps(_shortest(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _shortest(value: Json) -> Json:
    if is_object(value):
        return {key: _shortest(item) for key, item in value.items()}
    if is_list(value):
        return [_shortest(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Instances:
    """The instances of the types of one revision."""

    def __init__(self, revision: Revision, definitions: Mapping[str, Any], seed: int, count: int) -> None:
        self._types = revision.types
        self._definitions = definitions
        self._generator = InstanceGenerator(definitions, seed, _TEXTS)
        self._lists = {name for name, text in _properties(definitions) if '"maxItems"' in text}
        self._count = count
        self._numbers: dict[str, int] = {}

    def of(self, part: dict[str, str]) -> Iterator[Line]:
        """Yield the lines of a type: valid ones, then one for each place and class of error."""
        name = part["type"]
        validator: Any = Draft202012Validator({"$ref": f"{REF}{name}", "$defs": self._definitions})
        made = (self._with_defaults(name, self._generator.valid(name)) for _ in range(self._count * _TRIES))
        valid: dict[str, Json] = {}
        for instance in made:
            if validator.is_valid(instance):
                valid.setdefault(canonical(instance), instance)
            if len(valid) == self._count:
                break
        for text, instance in valid.items():
            yield {"id": self._id(part), **part, "valid": True, "instance": instance, "canonical": text}
        met: set[tuple[Any, ...]] = set()
        for instance in valid.values():
            for why, place, miss in self._near_misses(instance):
                key = (why, *("*" if isinstance(step, int) else step for step in place))
                if key in met or validator.is_valid(miss):
                    continue
                worst = cast("Any", best_match(validator.iter_errors(miss)))
                if why == "range" and worst.validator not in _BOUNDS:
                    continue
                met.add(key)
                at = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in place)
                policy = [_POLICY] if why == _POLICY else []
                line = {"valid": False, "why": why, "at": at, "policy": policy, "instance": miss}
                yield {"id": self._id(part), **part, **line}

    def _id(self, part: dict[str, str]) -> str:
        stem = f"{part['of'].replace('/', '-')}-{part['part']}"
        self._numbers[stem] = self._numbers.get(stem, 0) + 1
        return f"{stem}-{self._numbers[stem]}"

    def _with_defaults(self, name: str, instance: Json) -> Json:
        defined = self._types[name]
        fields = defined.fields if isinstance(defined, Object) else ()
        defaults = {field.wire: field.default for field in fields if field.default is not None and field.required}
        return {**instance, **defaults} if is_object(instance) else instance

    def _near_misses(self, instance: Json) -> Iterator[tuple[str, Place, Json]]:
        """Yield copies with one change, the place of it, and the class of error that it is."""
        for place, value in _places(instance):
            if isinstance(place[-1], str):
                yield "missing", place, _changed(instance, place)
            yield "null", place, _changed(instance, place, None)
            for wrong in _WRONG:
                if type(wrong) is not type(value):
                    yield "type", place, _changed(instance, place, wrong)
            if isinstance(value, str):
                yield "literal", place, _changed(instance, place, f"{value}!")
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                for outside in (-1, 2, 10**9):
                    yield "range", place, _changed(instance, place, outside)
            elif is_list(value) and place[-1] in self._lists:  # Others have no bound, and take long to check.
                yield "range", place, _changed(instance, place, value * 200)


def _places(value: Json, above: Place = ()) -> Iterator[tuple[Place, Json]]:
    pairs: list[tuple[str | int, Json]] = list(value.items()) if is_object(value) else []
    pairs += list(enumerate(value[:1])) if is_list(value) else []
    for key, item in pairs:
        yield (*above, key), item
        yield from _places(item, (*above, key))


def _properties(definitions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each property, with the text of its schema and of the definition that this names."""
    waiting: list[Any] = list(definitions.values())
    while waiting:
        schema = waiting.pop()
        waiting += schema.values() if is_object(schema) else schema if is_list(schema) else ()
        properties = schema.get("properties") if is_object(schema) else None
        for name, inner in properties.items() if is_object(properties) else ():
            named = str(is_object(inner) and inner.get("$ref")).rpartition("/")[2]
            yield name, json.dumps([inner, definitions.get(named)])


def _changed(instance: Json, place: Place, value: Any = _GONE) -> Json:
    """Return the instance with another value at a place, or without it. What is beside the place is shared."""
    copied = copy.copy(instance)
    holder: Any = copied
    for step in place[:-1]:
        holder[step] = copy.copy(holder[step])
        holder = holder[step]
    if value is _GONE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return copied


def _parts(revision: Revision) -> Iterator[dict[str, str]]:
    for row in revision.methods:
        sender, receiver = row.direction.split("_to_")
        part = "notification" if row.kind == "notification" else "request"
        yield {"of": row.method, "part": part, "sender": sender, "type": row.type}
        if row.result is not None:
            yield {"of": row.method, "part": "result", "sender": receiver, "type": row.result}


def _conversations(factory: MessageFactory) -> Iterator[list[Line]]:
    """Yield one conversation for each request of a client, after what its lifecycle begins with."""
    revision = factory.revision
    rows = {row.method: row for row in revision.methods if row.direction == "client_to_server"}
    roles = revision.lifecycle.roles
    first = [rows[roles[role]] for role in ("initialize_request", "initialized", "discover") if role in roles]
    others = [row for row in rows.values() if row.kind == "request" and row.result and row not in first]
    for row in others:
        if row.method != roles.get("listen"):
            yield [step for number, each in enumerate([*first, row], 1) for step in _steps(factory, each, number)]


def _steps(factory: MessageFactory, row: Method, number: int) -> Iterator[Line]:
    yield {"from": "client", "message": factory.request(row, number)}
    if row.result is not None:
        response = {"jsonrpc": "2.0", "id": number, "result": factory.result(row)}
        yield {"from": "server", "type": row.result, "message": response}


def line_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a line."""
    schema: dict[str, Any] = json.loads(Path(__file__).with_name("vectors.schema.json").read_text(encoding="utf-8"))
    return schema


# Conversion pairs among the test vectors: what the valid instances of one version become in each other one.
#
# The tables are those that the converters are generated from. `mcp_products.tooling.convert` applies them in a process
# of its own, because the generator does not import the runtime.


def conversions(schemas: SchemaCatalog, id: str, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield what each valid instance of `lines`, the vectors of a revision, becomes in each other revision.

    Raises CodegenError if the process that converts fails.
    """
    source = schemas.revision(id)
    rows = {(row.method, row.direction.partition("_")[0]): row for row in source.methods}
    targets = [schemas.revision(other) for other in schemas.pins if other != id]
    valid = [line for line in lines if line["kind"] == "instance" and line["valid"]]
    asked = [(target, line, _row(rows, line)) for target in targets for line in valid]
    numbers: dict[str, int] = {}
    answers = _converted(schemas, [_task(source, *each) for each in asked])
    for (target, line, row), answer in zip(asked, answers, strict=True):
        stem = f"{line['of'].replace('/', '-')}-{line['part']}-to-{target.id}"
        numbers[stem] = numbers.get(stem, 0) + 1
        head = {"kind": "conversion", "revision": id, "to": target.id, "id": f"{stem}-{numbers[stem]}"}
        kept = {key: line[key] for key in ("of", "part", "sender", "type", "instance")}
        yield {**head, **kept, **_outcome(target, line, row, answer)}


def _row(rows: Mapping[tuple[str, str], Method], line: Line) -> Method:
    """Return the row of the message, which for a result is that of its request."""
    sides = {"client": "server", "server": "client"}
    return rows[line["of"], sides[line["sender"]] if line["part"] == "result" else line["sender"]]


def _task(source: Revision, target: Revision, line: Line, row: Method) -> dict[str, Any]:
    task = {"source": source.id, "target": target.id, "direction": row.direction, "method": row.method}
    if line["part"] == "result":
        return {**task, "result": line["instance"]}
    return {**task, "params": line["instance"].get("params", {}), "capabilities": CAPABILITIES}


def _outcome(target: Revision, line: Line, row: Method, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that say what has become of an instance."""
    if "refused" in answer:
        return {"refused": answer["refused"], "reason": answer["reason"]}
    other = next(one for one in target.methods if (one.method, one.direction) == (answer["method"], row.direction))
    if line["part"] == "result":
        return {"converted_type": other.result, **_written(answer["value"], answer)}
    defined = target.types[other.type]
    wires = {field.wire for field in defined.fields} if isinstance(defined, Object) else set[str]()
    envelope = {"jsonrpc": "2.0", "id": line["instance"].get("id", 1)}
    message = {key: value for key, value in envelope.items() if key in wires}
    params = {"params": answer["value"]} if answer["value"] or "params" in line["instance"] else {}
    return {"converted_type": other.type, **_written({**message, "method": other.method, **params}, answer)}


def _written(value: Any, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {"converted": value, "canonical": canonical(value), "lost": answer["lost"]}


def _converted(schemas: SchemaCatalog, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    steps = {pair: asdict(step) for pair, step in schemas.steps.items()}
    lines = [repr({"order": list(schemas.pins), "steps": steps}), *map(json.dumps, tasks)]
    try:
        done = subprocess.run(_CONVERT, input="\n".join(lines), capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CodegenError(f"the messages cannot be converted: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [str(done.returncode)])[-1]
        raise CodegenError(f"the messages cannot be converted: {last}; install mcp-generated of the same version")
    return [json.loads(line) for line in done.stdout.splitlines()]
