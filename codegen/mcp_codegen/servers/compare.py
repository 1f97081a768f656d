"""The comparison of the locked and the live contract of a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from uritemplate import URITemplate

from ..json_types import JsonObject, is_list, is_object
from .canonical import canonical, digest
from .changes import ContractChange, ContractSeverity, moved
from .compare_schemas import compare_schemas
from .contract import KINDS, Contract

_HINTS: Final = "annotations"
# What the specification says of a tool that does not say it.
_HINT_DEFAULTS: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
_EXECUTION_DEFAULTS: Final = {"taskSupport": "forbidden"}


def compare(locked: Contract, live: Contract) -> list[ContractChange]:
    """Return every change, in the order of the lock. Order and white space are ignored."""
    changes: list[ContractChange] = []
    if locked.server != live.server:
        message = f"the name of the server is {live.server!a}, in the lock it is {locked.server!a}"
        changes.append(ContractChange("server-renamed", "review", "server", message))
    if locked.instructions.split() != live.instructions.split():
        changes.append(
            ContractChange("instructions-changed", "review", "server", "the instructions for models changed")
        )
    if locked.revision != live.revision:
        message = f"the server negotiates {live.revision!a}, in the lock it is {locked.revision!a}"
        changes.append(ContractChange("revision-changed", "compatible", "revision", message))
    for kind in KINDS:
        changes += _items(kind, locked.items[kind], live.items[kind])
    return changes


def _items(kind: str, locked: Mapping[str, JsonObject], live: Mapping[str, JsonObject]) -> Iterator[ContractChange]:
    for name in [key for key in locked if key not in live]:
        yield ContractChange("item-removed", "breaking", f"{kind}/{name}", f"{kind}: {name!a} was removed")
    for name in [key for key in live if key not in locked]:
        yield ContractChange("item-added", "compatible", f"{kind}/{name}", f"{kind}: {name!a} was added")
    for name, item in locked.items():
        if name in live and digest(item) != digest(live[name]):
            yield from _item(canonical(item), canonical(live[name]), f"{kind}/{name}")


def _item(before: JsonObject, after: JsonObject, where: str) -> Iterator[ContractChange]:
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
                severity: ContractSeverity = "breaking" if _variables(old) != _variables(new) else "review"
                yield _changed("uri-template-changed", severity, where, key, old, new)
            case "execution" if _with_defaults(old, _EXECUTION_DEFAULTS) == _with_defaults(new, _EXECUTION_DEFAULTS):
                pass
            case _ if key == _HINTS:
                yield from _hints(old, new, where)
            case _:
                rule, severity = _TEXTS.get(key, ("other-changed", "review"))
                yield _changed(rule, severity, where, key, old, new)


_TEXTS: Final[dict[str, tuple[str, ContractSeverity]]] = {
    "description": ("description-changed", "review"),
    "title": ("text-changed", "compatible"),
    "mimeType": ("mime-type-changed", "review"),
}


def _output(old: Any, new: Any, where: str) -> Iterator[ContractChange]:
    if old is None:
        yield ContractChange("schema-added", "compatible", where, f"{where}: a schema was added")
    elif new is None:
        yield ContractChange("schema-removed", "breaking", where, f"{where}: the schema was removed")
    else:
        yield from compare_schemas("output", old, new, where)


def _hints(old: Any, new: Any, where: str) -> Iterator[ContractChange]:
    """Yield the changes of annotations. The title is for people; the hints decide if a host asks before a tool runs."""
    before, after = (value if is_object(value) else {} for value in (old, new))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key, _HINT_DEFAULTS.get(key)) != after.get(key, _HINT_DEFAULTS.get(key)):
            rule, severity = _TEXTS.get(key, ("hint-changed", "review"))
            yield _changed(rule, severity, where, key, before.get(key), after.get(key))


def _with_defaults(value: Any, defaults: JsonObject) -> JsonObject:
    return {**defaults, **value} if is_object(value) else defaults


def _changed(rule: str, severity: ContractSeverity, where: str, key: str, old: Any, new: Any) -> ContractChange:
    return ContractChange(rule, severity, where, f"{where}: {key!a} {moved(old, new)}")


def _variables(template: Any) -> set[str]:
    return set(URITemplate(template).variable_names) if isinstance(template, str) else set()


def _as_schema(arguments: Any) -> JsonObject:
    """Return the arguments of a prompt as an equivalent schema."""
    objects = [argument for argument in arguments or [] if is_object(argument)] if is_list(arguments) else []
    properties = {
        str(argument.get("name")): {key: argument[key] for key in ("title", "description") if key in argument}
        for argument in objects
    }
    return {
        "properties": properties,
        "required": [str(argument.get("name")) for argument in objects if argument.get("required") is True],
    }
