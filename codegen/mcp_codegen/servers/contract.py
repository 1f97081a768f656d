"""What a server says it offers goes in as JSON, a checked Contract comes out: its tools, prompts and templates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import SchemaError
from ..json_types import is_list, is_object

Json = dict[str, Any]

KINDS: Final = ("tools", "prompts", "resource_templates")
_DEEPEST: Final = 200  # As many as the runtime reads in a message.
# A saved list may be the result of a request as it came, or what the server's own documents call it.
_SPELLINGS: Final = {"resource_templates": ("resource_templates", "resourceTemplates")}


@dataclass(frozen=True, slots=True)
class Contract:
    """What a server offers: for each of the KINDS the items by their names, in the order of the names."""

    revision: str
    server: str
    instructions: str
    offered: Mapping[str, Mapping[str, Json]]

    @property
    def tools(self) -> Mapping[str, Json]:
        return self.offered["tools"]

    @property
    def prompts(self) -> Mapping[str, Json]:
        return self.offered["prompts"]

    @property
    def resource_templates(self) -> Mapping[str, Json]:
        return self.offered["resource_templates"]


def read_contract(said: object, where: str) -> Contract:
    """The contract in parsed JSON: what mcp_runtime.introspect prints, a list result, or a bare list of tools.

    Raises SchemaError where something has no name, two have the same, a text is not Unicode, or it is too deep.
    """
    if _depth(said) > _DEEPEST:
        raise SchemaError(f"{where}: is more than {_DEEPEST} levels deep")
    if not _is_unicode(said):
        raise SchemaError(f"{where}: there is half a character (a lone surrogate) in it")
    if is_list(said):
        said = {"tools": said}
    if not is_object(said):
        raise SchemaError(f"{where}: what a server offers is an object, or a list of tools")
    result = said.get("result")
    said = result if is_object(result) else said
    found: dict[str, Mapping[str, Json]] = {}
    for kind in KINDS:
        spelled = next((word for word in _SPELLINGS.get(kind, (kind,)) if word in said), kind)
        found[kind] = _by_name(said.get(spelled, []), f"{where}: {kind}")
    if not any(found.values()) and not any(word in said for kind in KINDS for word in _SPELLINGS.get(kind, (kind,))):
        raise SchemaError(f"{where}: there are neither tools, prompts nor resource templates in it")
    return Contract(str(said.get("revision", "")), *_server(said), found)


def _depth(said: object) -> int:
    """How many objects and lists are inside each other, found without being as deep oneself."""
    level: list[object] = [said]
    depth = -1
    while level:
        depth += 1
        level = [inside for each in level for inside in _inside(each)]
    return depth


def _inside(value: object) -> Iterable[object]:
    return value.values() if is_object(value) else value if is_list(value) else ()


def _is_unicode(said: object) -> bool:
    try:
        json.dumps(said, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _by_name(items: object, where: str) -> dict[str, Json]:
    if not is_list(items):
        raise SchemaError(f"{where}: is not a list")
    named: dict[str, Json] = {}
    for number, item in enumerate(items):
        name = item.get("name") if is_object(item) else None
        if not is_object(item) or not isinstance(name, str) or not name:
            raise SchemaError(f"{where}: item {number} has no name")
        if name in named:
            raise SchemaError(f"{where}: two items have the name {ascii(name)}")
        named[name] = item
    return dict(sorted(named.items()))


def _server(said: Json) -> tuple[str, str]:
    """The server's name, which stands where its lifecycle says, and its instructions."""
    found = said.get("server")
    server = found if is_object(found) else {}
    meta = server.get("_meta")
    info = server.get("serverInfo")
    for key, value in (meta if is_object(meta) else {}).items():
        info = value if key.endswith("/serverInfo") else info
    name = info.get("name") if is_object(info) else None
    instructions = server.get("instructions")
    return name if isinstance(name, str) else "", instructions if isinstance(instructions, str) else ""
