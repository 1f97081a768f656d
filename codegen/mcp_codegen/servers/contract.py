"""The contract of a server, checked: its tools, prompts and resource templates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import SchemaError
from ..json_types import JsonObject, is_list, is_object

KINDS: Final = ("tools", "prompts", "resource_templates")
_MAX_DEPTH: Final = 200  # The limit of the runtime for messages.
# A saved list may be the unchanged result of a request, with its spelling of the keys.
_SPELLINGS: Final = {"resource_templates": ("resource_templates", "resourceTemplates")}


@dataclass(frozen=True, slots=True)
class Contract:
    """The features of a server: for each of KINDS the items by name, sorted by name."""

    revision: str
    server: str
    instructions: str
    items: Mapping[str, Mapping[str, JsonObject]]

    @property
    def tools(self) -> Mapping[str, JsonObject]:
        return self.items["tools"]

    @property
    def prompts(self) -> Mapping[str, JsonObject]:
        return self.items["prompts"]

    @property
    def resource_templates(self) -> Mapping[str, JsonObject]:
        return self.items["resource_templates"]


def read_contract(document: object, where: str) -> Contract:
    """Return the contract in parsed JSON: the output of mcp_runtime.introspect, a list result, or a list of tools.

    Raises SchemaError for an item without a name, two items with one name, text that is not Unicode, or deep nesting.
    """
    if _depth(document) > _MAX_DEPTH:
        raise SchemaError(f"{where}: is nested more than {_MAX_DEPTH} levels deep")
    if not _is_unicode(document):
        raise SchemaError(f"{where}: has an unpaired surrogate, which is not valid Unicode")
    if is_list(document):
        document = {"tools": document}
    if not is_object(document):
        raise SchemaError(f"{where}: must be a JSON object with lists, or a list of tools")
    result = document.get("result")
    document = result if is_object(result) else document
    items: dict[str, Mapping[str, JsonObject]] = {}
    for kind in KINDS:
        key = next((spelling for spelling in _SPELLINGS.get(kind, (kind,)) if spelling in document), kind)
        items[kind] = _by_name(document.get(key, []), f"{where}: {kind}")
    if not any(items.values()) and not any(
        spelling in document for kind in KINDS for spelling in _SPELLINGS.get(kind, (kind,))
    ):
        raise SchemaError(f"{where}: has no tools, prompts or resource templates; pass the result of a list request")
    return Contract(str(document.get("revision", "")), *_server(document), items)


def _depth(document: object) -> int:
    """Return the nesting depth of objects and lists, without recursion."""
    level: list[object] = [document]
    depth = -1
    while level:
        depth += 1
        level = [child for value in level for child in _children(value)]
    return depth


def _children(value: object) -> Iterable[object]:
    return value.values() if is_object(value) else value if is_list(value) else ()


def _is_unicode(document: object) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _by_name(items: object, where: str) -> dict[str, JsonObject]:
    if not is_list(items):
        raise SchemaError(f"{where}: is not a list")
    named: dict[str, JsonObject] = {}
    for number, item in enumerate(items):
        name = item.get("name") if is_object(item) else None
        if not is_object(item) or not isinstance(name, str) or not name:
            raise SchemaError(f"{where}: item {number} needs a `name`")
        if name in named:
            raise SchemaError(f"{where}: two items have the name {name!a}; names must be unique")
        named[name] = item
    return dict(sorted(named.items()))


def _server(document: JsonObject) -> tuple[str, str]:
    """Return the name of the server, at the place of its lifecycle, and its instructions."""
    value = document.get("server")
    server = value if is_object(value) else {}
    meta = server.get("_meta")
    info = server.get("serverInfo")
    for key, item in (meta if is_object(meta) else {}).items():
        info = item if key.endswith("/serverInfo") else info
    name = info.get("name") if is_object(info) else None
    instructions = server.get("instructions")
    return name if isinstance(name, str) else "", instructions if isinstance(instructions, str) else ""
