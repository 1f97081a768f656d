"""The explorer: one HTML page that loads no other file, and its content as JSON: revisions, types, methods and changes.

Schema text is untrusted: the page contains it as JSON in which no tag can begin, and the script inserts it as text. The
content security policy of the page allows that one script and that one style, and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from ..model.ir import Array, Field, Map, Method, Object, Ref, Revision, Type, Union
from .changes import DIFF_RULES, DiffChange
from .compare import compare, show

Written = list[Any]

_SIDES: Final[Mapping[str, str]] = {"client_to_server": "client", "server_to_client": "server"}
_ESCAPES: Final[Mapping[str, str]] = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def content(revisions: Sequence[Revision]) -> dict[str, Any]:
    """Return the content of the page: methods, types, and the changes between each two revisions."""
    records: dict[str, int] = {}
    return {
        "revisions": [_revision(revision, records) for revision in revisions],
        "records": [json.loads(text) for text in records],
        "methods": _methods(revisions),
        "rules": {name: rule.text for name, rule in DIFF_RULES.items()},
        "changes": {
            f"{older.id} {newer.id}": [_change(change) for change in compare(older, newer)]
            for older, newer in combinations(revisions, 2)
        },
    }


def _revision(revision: Revision, records: dict[str, int]) -> dict[str, Any]:
    types = {
        name: records.setdefault(json.dumps(_record(name, revision)), len(records)) for name in sorted(revision.types)
    }
    return {"id": revision.id, "lifecycle": revision.lifecycle.style, "types": types}


def _record(name: str, revision: Revision) -> dict[str, Any]:
    type = revision.types[name]
    record: dict[str, Any] = {"doc": type.doc, "deprecated": type.deprecated}
    if isinstance(type, Object):
        return record | {"extends": list(type.extends), "fields": [_field(field) for field in type.fields]}
    return record | {"type": list(_type_parts(type.type))}


def _field(field: Field) -> dict[str, Any]:
    return {
        "name": field.wire,
        "type": list(_type_parts(field.type)),
        "required": field.required,
        "doc": field.doc,
        "deprecated": field.deprecated,
    }


def _type_parts(type: Type) -> Iterator[str | dict[str, str]]:
    """Yield a type in the syntax of schema.ts, with the names of other types separate."""
    match type:
        case Ref(name):
            yield {"ref": name}
        case Array(items, max_items):
            is_union = isinstance(items, Union)
            yield from ["("] if is_union else []
            yield from _type_parts(items)
            yield (")[]" if is_union else "[]") + (f" (≤ {max_items})" if max_items is not None else "")
        case Map(values):
            yield "{ [key]: "
            yield from _type_parts(values)
            yield " }"
        case Union(arms):
            for index, arm in enumerate(arms):
                yield from [" | "] if index else []
                yield from _type_parts(arm)
        case _:
            yield show(type)


def _methods(revisions: Sequence[Revision]) -> list[dict[str, Any]]:
    """Return each method of each side, in the order of the oldest revision that has it, with its row in each
    revision."""
    methods: dict[tuple[str, str], dict[str, Any]] = {}
    for revision in revisions:
        for row in revision.methods:
            method = methods.setdefault((row.direction, row.method), {"method": row.method, "in": {}})
            method |= {"from": _SIDES[row.direction], "kind": row.kind.replace("_", " "), "doc": row.doc}
            method["in"][revision.id] = _row(row)
    return list(methods.values())


def _row(row: Method) -> dict[str, Any]:
    return {
        "message": row.type,
        "params": row.params,
        "optional": row.params is not None and not row.params_required,
        "result": row.result,
        "interim": [interim.type for interim in row.interim],
        "capability": row.capability,
        "deprecated": row.deprecated,
    }


def _change(change: DiffChange) -> list[str]:
    sides = [str(change.client), str(change.server)]
    return [change.rule, change.at, change.before, change.after, *sides, change.removable]


# The explorer: one HTML page that loads no other file.
#
# Schema text is untrusted: the page contains it as JSON in which no tag can begin, and the script inserts it as text.
# The content security policy of the page allows that one script and that one style, and no connection.


def page(content: Mapping[str, Any], templates: Path) -> str:
    """Return the page, made from the templates in `explore/`."""
    folder = templates / "explore"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, autoescape=True
    )
    script, style = ((folder / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'"
    return environment.get_template("page.html.jinja2").render(
        content=Markup(_json(content)),
        script=Markup(script),
        style=Markup(style),
        policy=policy,
        generator=version("mcp-generated"),
    )


def _json(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return "".join(_ESCAPES.get(char, char) for char in text)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
