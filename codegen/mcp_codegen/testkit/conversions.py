"""Conversion pairs among the test vectors: what the valid instances of one version become in each other one.

The tables are those that the converters are generated from. `mcp_products.tooling.convert` applies them in a process of
its own, because the generator does not import the runtime.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from ..catalog import SchemaCatalog
from ..errors import CodegenError
from ..model.ir import Method, Object, Revision
from .vectors import Line, canonical

_CONVERT: Final = (
    sys.executable,
    "-P",
    "-m",
    "mcp_products.tooling.convert",
)  # -P: the current folder hides no module.
_SECONDS: Final = 300
CAPABILITIES: Final[Mapping[str, Any]] = {}  # What the client of the session has declared.


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


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a line: what a converted message has, or one that is refused."""
    text: dict[str, Any] = {"type": "string"}
    lost = {"type": "object", "required": ["at", "rule"], "properties": {"at": text, "rule": text}}
    head = {
        "kind": {"const": "conversion"},
        "revision": text,
        "to": {**text, "description": "The version that the message is converted to."},
        "id": text,
        "of": {**text, "description": "The method."},
        "part": {"enum": ["request", "notification", "result"]},
        "sender": {"enum": ["client", "server"]},
        "type": text,
        "instance": {},
    }
    converted = {
        "converted_type": {**text, "description": "The type in the other version."},
        "converted": {"description": "It is valid there. The id of a request that had none is 1."},
        "canonical": {**text, "description": "`converted` with sorted keys, no spaces and the shortest numbers."},
        "lost": {"type": "array", "items": lost, "description": "What is left out, by its path and the rule for it."},
    }
    refused = {"refused": {**text, "description": "The rule that refuses it."}, "reason": text}
    arms = [
        {"type": "object", "properties": {**head, **own}, "required": [*head, *own], "additionalProperties": False}
        for own in (converted, refused)
    ]
    return {"anyOf": arms}
