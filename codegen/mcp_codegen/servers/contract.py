"""The contract of a server: its tools, prompts and resource templates, checked, in one form, with a hash, and in a lock
file; and a change of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import JsonObject, SchemaError, is_list, is_object
from ..paths import read_toml

KINDS: Final = ("tools", "prompts", "resource_templates")
_MAX_DEPTH: Final = 200  # The limit of the runtime for messages.
# A saved list may be the unchanged result of a request, with its spelling of the keys.
_SPELLINGS: Final = {kind: (kind,) for kind in KINDS} | {KINDS[2]: ("resource_templates", "resourceTemplates")}


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
    """Return the contract in parsed JSON: the output of `tooling.introspect`, a list result, or a list of tools.

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
        key = next((spelling for spelling in _SPELLINGS[kind] if spelling in document), kind)
        items[kind] = _by_name(document.get(key, []), f"{where}: {kind}")
    if not any(items.values()) and not document.keys() & {key for keys in _SPELLINGS.values() for key in keys}:
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
    name, instructions = server_identity(server).get("name"), server.get("instructions")
    return name if isinstance(name, str) else "", instructions if isinstance(instructions, str) else ""


# The canonical form and the hash of an item of a contract: equal for all equivalent spellings.
#
# The order of keys, the order of lists that JSON Schema treats as sets, and white space in descriptions are ignored.

_PROSE: Final = frozenset({"description", "title", "$comment"})
_SETS: Final = frozenset({"required", "enum", "type", "anyOf", "oneOf", "allOf", "examples"})
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_UNCHANGED: Final = frozenset({"default", "const"})


def canonical(item: JsonObject) -> JsonObject:
    """Return a tool, prompt or resource template in its canonical form, without its `_meta` and icons."""
    return {key: _part(key, value) for key, value in sorted(item.items()) if key not in ("_meta", "icons")}


def digest(item: JsonObject) -> str:
    """Return the sha256 of the canonical form of an item, in hexadecimal."""
    return hashlib.sha256(_text(canonical(item)).encode()).hexdigest()


def _part(key: str, value: Any) -> Any:
    if key in _SCHEMAS:
        return schema(value)
    if key in _PROSE and isinstance(value, str):
        return " ".join(value.split())
    if key == "arguments" and is_list(value):
        return sorted((canonical(argument) if is_object(argument) else argument for argument in value), key=_text)
    return value


def schema(value: Any) -> Any:
    """Return a JSON Schema in its canonical form."""
    if not is_object(value):
        return value
    return {key: _keyword(key, part) for key, part in sorted(value.items())}


def _keyword(key: str, value: Any) -> Any:
    if key in _UNCHANGED:
        return value
    if key in _PROSE and isinstance(value, str):
        return " ".join(value.split())
    if key in _BY_NAME and is_object(value):
        return {name: schema(part) for name, part in sorted(value.items())}
    if is_list(value):
        parts = [schema(part) for part in value] if key not in ("enum", "examples") else value
        return sorted(parts, key=_text) if key in _SETS else parts
    return schema(value) if is_object(value) else value


_text: Final[Callable[[Any], str]] = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


# The name of a live server, as its result of `initialize` or of the discovery has it.


def server_identity(server: object) -> JsonObject:
    """Return `name`, `version` and so on of the server's own result, empty if it has none."""
    fields = server if is_object(server) else {}
    if is_object(info := fields.get("serverInfo")):
        return info
    meta = fields.get("_meta")
    values = meta.items() if is_object(meta) else ()
    for key, value in values:
        if key.endswith("/serverInfo") and is_object(value):
            return value
    return {}


# The local references of a schema, resolved in its document, and a hash of a schema with everything it refers to.

_MAX_REFERENCES = 20
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})


def pointer(schema: Any) -> str:
    """Return the reference of the schema itself, or an empty string."""
    reference = schema.get("$ref") if is_object(schema) else None
    return reference if isinstance(reference, str) else ""


def resolve_pointer(reference: str, root: Any) -> Any:
    """Return the value that a local reference points to; None if it is not local or points nowhere."""
    if not reference.startswith("#"):
        return None
    value = root
    for name in reference[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if is_object(value):
            value = value.get(name)
        elif is_list(value) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def resolve(schema: Any, root: Any) -> Any:
    """Return the schema that a local reference points to, with the keywords next to the reference. Other references
    are unchanged."""
    for _ in range(_MAX_REFERENCES):
        definition = resolve_pointer(pointer(schema), root)
        if not is_object(definition):
            return schema
        schema = {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def overrides(schema: Any, root: Any) -> str:
    """Return a hash of the definition that a reference points to, if keywords next to the reference are also in the
    definition and both hold; else an empty string."""
    definition = resolve_pointer(pointer(schema), root)
    if not is_object(definition) or not (definition.keys() & schema.keys()) - _ANNOTATIONS:
        return ""
    return fingerprint(definition, root)


def fingerprint(schema: Any, root: Any) -> str:
    """Return a hash of the schema and everything it refers to. The place and the names of definitions do not matter."""
    return str(_Fingerprints(root).of(schema))


class _Fingerprints:
    """The hashes of one document, from the inside out. Each definition is hashed once, so that the cost is linear in
    the size of the text. A recursive definition is marked by its position in the nesting."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._hashes: dict[str, str] = {}
        self._open: set[str] = set()

    def of(self, value: Any) -> Any:
        if is_list(value):
            return [self.of(item) for item in value]
        if not is_object(value):
            return value
        reference = pointer(value)
        definition = resolve_pointer(reference, self._root)
        if not is_object(definition):
            return self._hash(value)
        siblings = {key: part for key, part in value.items() if key != "$ref"}
        if not siblings:
            return self._definition(reference, definition)
        if reference in self._open:
            return self._hash(siblings)
        self._open.add(reference)
        merged = self.of({**definition, **siblings})
        self._open.discard(reference)
        return merged

    def _definition(self, reference: str, definition: Any) -> str:
        if reference not in self._hashes:
            self._hashes[reference] = f"recursive {len(self._hashes)}"
            self._hashes[reference] = self.of(definition)
        return self._hashes[reference]

    def _hash(self, value: dict[str, Any]) -> str:
        parts = {key: self.of(part) for key, part in sorted(value.items()) if not _is_ignored(key, part)}
        text = json.dumps(schema(parts), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _is_ignored(key: str, value: Any) -> bool:
    """Return True for a keyword without effect on the allowed values."""
    return key in ("$defs", "definitions") or (key == "additionalProperties" and value in (True, {}))


# The lock file of a contract.

_FORMAT: Final = 1
_TEXTS: Final = ("revision", "server", "instructions")
_HEADER: Final = "Generated by mcp-codegen lock; compare with mcp-codegen check."


def lock_text(contract: Contract) -> str:
    """Return the text of the lock: for each item its canonical form and the sha256 of that."""
    lock: JsonObject = {"_": _HEADER, "format": _FORMAT}
    lock |= {name: getattr(contract, name) for name in _TEXTS}
    for kind in KINDS:
        items = contract.items[kind].items()
        lock[kind] = {name: {"sha256": digest(item), "contract": canonical(item)} for name, item in items}
    return json.dumps(lock, indent=2) + "\n"


def read_lock(path: Path) -> Contract:
    """Return the contract in a lock file. Raises SchemaError for a file that is not a lock or was edited."""
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SchemaError(f"{path}: this lock does not exist; create it with `mcp-codegen lock`") from error
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(
            f"{path}: cannot be read as a lock: {error}; create it again with `mcp-codegen lock`"
        ) from error
    if not is_object(lock) or lock.get("format") != _FORMAT:
        raise SchemaError(f"{path}: is not a lock of format {_FORMAT}; create it again with `mcp-codegen lock`")
    items = {kind: _items(path, lock.get(kind)) for kind in KINDS}
    revision, server, instructions = (str(lock.get(name, "")) for name in _TEXTS)
    return Contract(revision, server, instructions, items)


def _items(path: Path, locked: object) -> dict[str, JsonObject]:
    if not is_object(locked):
        raise SchemaError(
            f"{path}: a lock needs an object for each of {', '.join(KINDS)}; create it again with `mcp-codegen lock`"
        )
    return {name: _item(path, name, item) for name, item in locked.items()}


def _item(path: Path, name: str, locked: object) -> JsonObject:
    item = locked.get("contract") if is_object(locked) else None
    if not is_object(locked) or not is_object(item) or locked.get("sha256") != digest(item):
        raise SchemaError(f"{path}: {name!a} does not match its sha256; create the lock again with `mcp-codegen lock`")
    return item


# A change between a lock and a live server: its rule, severity and place.

ContractSeverity = Literal["compatible", "review", "breaking"]

SEVERITIES: Final[tuple[ContractSeverity, ...]] = ("compatible", "review", "breaking")

RULES: Final[dict[str, str]] = read_toml(Path(__file__).with_name("rules.toml"))


@dataclass(frozen=True, slots=True)
class ContractChange:
    """One change; `where` is a path such as `tools/get_alerts/input/state`."""

    rule: str
    severity: ContractSeverity
    where: str
    message: str


_SHOWN: Final = 60  # Characters of a value.
_BEFORE: Final = 20  # Of these, what stands before the first difference.


def moved(before: object, after: object) -> str:
    """Return both values, cut so that the first difference between them is shown."""
    texts = (ascii(before), ascii(after))
    equal = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(*texts, strict=False)))
    start = max(0, equal - _BEFORE) if max(map(len, texts)) > _SHOWN and equal > _BEFORE else 0
    shown = [
        ("..." if start else "") + text[start : start + _SHOWN] + ("..." if len(text) > start + _SHOWN else "")
        for text in texts
    ]
    return f"from {shown[0]} to {shown[1]}"
