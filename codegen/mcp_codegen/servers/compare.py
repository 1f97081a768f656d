"""The locked and the live contract of a server go in, what changed between them comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from uritemplate import URITemplate

from ..json_types import is_list, is_object
from .canonical import canonical, digest
from .changes import Change, Severity
from .compare_schemas import compare_schemas
from .contract import KINDS, Contract, Json

_HINTS: Final = "annotations"


def compare(locked: Contract, live: Contract) -> list[Change]:
    """Every change, the locked order first. Reordering and white space are none."""
    changes: list[Change] = []
    if locked.server != live.server:
        message = f"the server calls itself {live.server!a}, the lock says {locked.server!a}"
        changes.append(Change("server-renamed", "review", "server", message))
    if locked.instructions.split() != live.instructions.split():
        changes.append(Change("instructions-changed", "review", "server", "the instructions for models were changed"))
    if locked.revision != live.revision:
        message = f"the server agrees to {live.revision!a}, the lock says {locked.revision!a}"
        changes.append(Change("revision-changed", "compatible", "revision", message))
    for kind in KINDS:
        changes += _items(kind, locked.offered[kind], live.offered[kind])
    return changes


def _items(kind: str, locked: Mapping[str, Json], live: Mapping[str, Json]) -> Iterator[Change]:
    for name in [each for each in locked if each not in live]:
        yield Change("item-removed", "breaking", f"{kind}/{name}", f"{kind}: {name!a} is no longer offered")
    for name in [each for each in live if each not in locked]:
        yield Change("item-added", "compatible", f"{kind}/{name}", f"{kind}: {name!a} is new")
    for name, item in locked.items():
        if name in live and digest(item) != digest(live[name]):
            yield from _item(canonical(item), canonical(live[name]), f"{kind}/{name}")


def _item(before: Json, after: Json, where: str) -> Iterator[Change]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        match key:
            case "inputSchema":
                yield from compare_schemas("input", old or {}, new or {}, f"{where}/input")
            case "outputSchema":
                yield from _output(old, new, f"{where}/output")
            case "arguments":
                yield from compare_schemas("input", _as_schema(old), _as_schema(new), f"{where}/arguments")
            case "uriTemplate":
                severity: Severity = "breaking" if _variables(old) != _variables(new) else "review"
                yield _changed("uri-template-changed", severity, where, key, old, new)
            case _ if key == _HINTS:
                yield from _hints(old, new, where)
            case _:
                rule, how = _TEXTS.get(key, ("other-changed", "review"))
                yield _changed(rule, how, where, key, old, new)


_TEXTS: Final[dict[str, tuple[str, Severity]]] = {
    "description": ("description-changed", "review"),
    "title": ("text-changed", "compatible"),
    "mimeType": ("mime-type-changed", "review"),
}


def _output(old: Any, new: Any, where: str) -> Iterator[Change]:
    if old is None:
        yield Change("schema-added", "compatible", where, f"{where}: there is a schema now")
    elif new is None:
        yield Change("schema-removed", "breaking", where, f"{where}: there is no schema any more")
    else:
        yield from compare_schemas("output", old, new, where)


def _hints(old: Any, new: Any, where: str) -> Iterator[Change]:
    """Annotations: their title is for people; the hints decide whether somebody is asked before a tool runs."""
    before, after = (each if is_object(each) else {} for each in (old, new))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            rule, severity = _TEXTS.get(key, ("hint-changed", "review"))
            yield _changed(rule, severity, where, key, before.get(key), after.get(key))


def _changed(rule: str, severity: Severity, where: str, key: str, old: Any, new: Any) -> Change:
    return Change(rule, severity, where, f"{where}: {key!a} from {old!a:.60} to {new!a:.60}")


def _variables(template: Any) -> set[str]:
    return set(URITemplate(template).variable_names) if isinstance(template, str) else set()


def _as_schema(arguments: Any) -> Json:
    """A prompt's arguments as the schema they amount to."""
    known = [each for each in arguments or [] if is_object(each)] if is_list(arguments) else []
    properties = {
        str(each.get("name")): {key: each[key] for key in ("title", "description") if key in each} for each in known
    }
    return {
        "properties": properties,
        "required": [str(each.get("name")) for each in known if each.get("required") is True],
    }
