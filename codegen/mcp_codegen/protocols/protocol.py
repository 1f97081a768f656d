"""A protocol in the intermediate representation, a revision without a lifecycle and without HTTP; its manifest, and the
files of its package."""

from __future__ import annotations

import json
import keyword
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from ..errors import CodegenError, SchemaError
from ..importer.references import Schema
from ..model.ir import Method, Revision
from ..model.names import snake, type_name
from ..model.overlay import Docs, Overlay, OverlayRow
from ..model.types import NamedTypes, read_types
from ..paths import Templates, digest
from ..render.package import declared_types
from ..render.source import GENERATOR, format_modules, print_template, verify_types_module
from ..render.types import docstring, literal
from .document import Direction, ProtocolDocument, ProtocolMessage, require_object
from .json_schema import read_json_schema
from .notations import read_meta_model, read_open_rpc

# The manifest of a protocol: what its document does not state.
#
# | key         | meaning                                                                                   |
# |-------------|-------------------------------------------------------------------------------------------|
# | `name`      | the name of the protocol, for texts                                                       |
# | `version`   | its version; default: the one of the document                                             |
# | `document`  | the file, beside the manifest                                                             |
# | `format`    | `json-schema`, `meta-model` or `open-rpc`                                                 |
# | `framing`   | over stdio: `lines` (one message a line), or `headers` (`Content-Length` before a message); |
# |             | or `http`: each message is a POST                                                         |
# | `streams`   | of `http`: the methods whose results come one after another, as Server-Sent Events         |
# | `messages`  | `json-rpc`, or `debug-adapter`: those of DAP, which have other names                       |
# | `reverse`   | of DAP: the commands that the server sends                                                 |
# | `[results]` | the definitions that are the results of methods of which the document does not say it       |
# | `params`    | of OpenRPC, where a method leaves it open: `by-name` (default) or `by-position`            |
# | `[sides]`   | the names of the classes of the two sides: `client`, which starts the other, and `server` |
# | `[cancel]`  | the notification that cancels a request: `method`, and the `property` with the id         |

DocumentFormat = Literal["json-schema", "meta-model", "open-rpc"]
Framing = Literal["lines", "headers", "http"]
MessageForm = Literal["json-rpc", "debug-adapter"]
ParamStructure = Literal["by-name", "by-position"]
_INDENT: Final = "        "
_RESERVED: Final = frozenset((*keyword.kwlist, "run", "start", "connect", "asgi"))  # The methods of every peer.


@dataclass(frozen=True, slots=True)
class ProtocolManifest:
    """The manifest of one protocol."""

    name: str
    document: str
    format: DocumentFormat
    version: str = ""
    framing: Framing = "lines"
    messages: MessageForm = "json-rpc"
    reverse: list[str] = field(default_factory=list[str])
    streams: list[str] = field(default_factory=list[str])
    results: dict[str, str] = field(default_factory=dict[str, str])
    params: ParamStructure = "by-name"
    sides: dict[str, str] = field(default_factory=lambda: {"client": "Client", "server": "Server"})
    cancel: dict[str, str] = field(default_factory=dict[str, str])


def read_protocol_manifest(path: Path) -> ProtocolManifest:
    """Return the manifest. Raises CodegenError for one that cannot be read, and names the key."""
    try:
        manifest = ProtocolManifest(**tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CodegenError(f"{path}: cannot be read as the manifest of a protocol: {error}") from error
    for key, value, allowed in (
        ("format", manifest.format, get_args(DocumentFormat)),
        ("framing", manifest.framing, get_args(Framing)),
        ("messages", manifest.messages, get_args(MessageForm)),
        ("params", manifest.params, get_args(ParamStructure)),
    ):
        if value not in allowed:
            raise CodegenError(f"{path}: {key} = {value!r} is unknown; set it to {' or '.join(allowed)}")
    if manifest.messages == "debug-adapter" and (manifest.format != "json-schema" or manifest.cancel):
        raise CodegenError(
            f"{path}: messages = 'debug-adapter' goes with format = 'json-schema', and without [cancel]: there, a "
            "request cancels"
        )
    if not _is_list_of_names(manifest.reverse) or (manifest.reverse and manifest.messages == "json-rpc"):
        raise CodegenError(f"{path}: reverse = {manifest.reverse!r} must be a list of commands of 'debug-adapter'")
    if not _is_list_of_names(manifest.streams) or (manifest.streams and manifest.framing != "http"):
        raise CodegenError(f"{path}: streams = {manifest.streams!r} must be a list of methods, with framing = 'http'")
    if manifest.framing == "http" and (manifest.messages != "json-rpc" or manifest.cancel):
        raise CodegenError(
            f"{path}: framing = 'http' goes with messages = 'json-rpc', and without [cancel]: there, a request ends "
            "with its connection"
        )
    if not all(isinstance(name, str) for name in cast("dict[str, object]", manifest.results).values()):
        raise CodegenError(f"{path}: [results] needs the name of a definition for each method")
    names = list(manifest.sides.values())
    if manifest.sides.keys() != {"client", "server"} or not all(str(name).isidentifier() for name in names):
        raise CodegenError(f"{path}: [sides] needs `client` and `server`, each with the name of a class")
    if names[0].lower() == names[1].lower():
        raise CodegenError(f"{path}: both [sides] are named {names[0]}; give them different names")
    if manifest.cancel and manifest.cancel.keys() != {"method", "property"}:
        raise CodegenError(f"{path}: [cancel] needs `method` and `property`")
    return manifest


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in cast("list[object]", value))


def read_document(manifest: ProtocolManifest, path: Path) -> ProtocolDocument:
    """Return what the document of a manifest describes. Raises SchemaError."""
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: cannot be read as the document of {manifest.name}: {error}") from error
    document = require_object(parsed, f"{path}: the document")
    try:
        return _read(manifest, document)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        # A document is untrusted input: any error it causes here becomes one clear line.
        raise SchemaError(
            f"{path}: has a form that mcp-codegen cannot read as {manifest.format}: {error!r}; correct `format`, or "
            "the document"
        ) from error


def _read(manifest: ProtocolManifest, document: Schema) -> ProtocolDocument:
    match manifest.format:
        case "json-schema":
            reverse = manifest.reverse if manifest.messages == "debug-adapter" else None
            return read_json_schema(document, manifest.name, manifest.sides, reverse)
        case "meta-model":
            return read_meta_model(document, manifest.name)
        case "open-rpc":
            return read_open_rpc(document, manifest.name, manifest.params)


def read_protocol(path: Path) -> tuple[ProtocolManifest, Revision]:
    """Return a protocol by the path of its manifest. Raises CodegenError."""
    manifest = read_protocol_manifest(path)
    document_path = path.parent / manifest.document
    document = read_document(manifest, document_path)
    return manifest, protocol_revision(manifest, document, digest(document_path.read_bytes()))


def protocol_revision(manifest: ProtocolManifest, document: ProtocolDocument, sha256: str) -> Revision:
    """Return a protocol as a revision. Raises SchemaError for a type that cannot be read, or an ambiguous message."""
    version = manifest.version or document.version
    if not version:
        raise SchemaError(f"{manifest.name}: the document has no version; set `version` in the manifest")
    definitions = document.schema["$defs"]
    if not definitions and not document.messages:
        raise SchemaError(f"{manifest.name}: the document has no method and no type; pass one that has some")
    names = _python_names(definitions)
    rows = [OverlayRow("name", key, name, type_name(key), ()) for key, name in names.items() if name != type_name(key)]
    try:
        types = read_types(document.schema, manifest.name, Overlay(tuple(rows)), Docs()) if definitions else {}
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise SchemaError(f"{manifest.name}: the document has a form that cannot be read: {error!r}") from error
    messages = _with_results(document.messages, manifest)
    methods = tuple(_method(message, types, names, manifest.name) for message in messages)
    _check_names(methods, manifest.name)
    _check_http(manifest, methods)
    return Revision(
        id=version,
        types=types,
        methods=methods,
        sha256=sha256,
        client=manifest.sides["client"],
        server=manifest.sides["server"],
        protocol=manifest.name,
    )


def _with_results(messages: tuple[ProtocolMessage, ...], manifest: ProtocolManifest) -> list[ProtocolMessage]:
    """Return messages with the results that the manifest names. Raises SchemaError for one that has a result."""
    left = dict(manifest.results)
    told = [
        (
            replace(message, result=left.pop(message.method))
            if message.method in left and message.kind == "request" and message.result is None
            else message
        )
        for message in messages
    ]
    for method in left:
        text = f"{manifest.name}: [results] names {method!r}, which is not a request without a result; remove it"
        raise SchemaError(text, at=method)
    return told


def _python_names(definitions: Iterable[str]) -> dict[str, str]:
    """Return the Python name of each definition: of two that would have the same, one that has it already keeps it.

    They begin with a capital: a type named like an attribute would hide it.
    """
    names: dict[str, str] = {}
    used: set[str] = set()
    for key in sorted(definitions, key=lambda key: _class_name(key) != key):
        name = _class_name(key)
        while name in used:
            name += "Base"
        used.add(name)
        names[key] = name
    return names


def _class_name(key: str) -> str:
    return type_name(key[:1].upper() + key[1:])


def _method(message: ProtocolMessage, types: NamedTypes, names: Mapping[str, str], protocol: str) -> Method:
    params, result = (None if key is None else names.get(key, key) for key in (message.params, message.result))
    for name in (params, result):
        if name is not None and name not in types:
            raise SchemaError(f"{protocol}: {message.method} needs {name}, which is not defined; define it", at=name)
    receiver = "server" if message.direction == "client_to_server" else "client"
    return Method(
        kind=message.kind,
        direction=message.direction,
        method=message.method,
        name=message.name,
        type="",
        params=params,
        params_required=message.params is not None,
        result=result,
        interim=(),
        capability=f"{receiver}.{message.capability}" if message.capability else "",
        requirements=(),
        doc=message.doc,
        deprecated=message.deprecated,
        since=message.since,
        positions=message.positions,
        sends_list=message.sends_list,
    )


def _check_names(methods: tuple[Method, ...], protocol: str) -> None:
    """Raise SchemaError for two methods of one direction with the same Python name."""
    seen: dict[tuple[str, str], str] = {}
    for row in methods:
        other = seen.setdefault((row.direction, row.name), row.method)
        reason = f"and that of {other!r} would have the Python name {row.name!r}; rename one"
        if not row.name.isidentifier():
            reason = "gives no Python name; begin it with an ASCII letter"
        if other != row.method or not row.name.isidentifier():
            raise SchemaError(f"{protocol}: the method {row.method!r} {reason}", rule="name", at=row.method)


def _check_http(manifest: ProtocolManifest, methods: tuple[Method, ...]) -> None:
    """Raise SchemaError for what HTTP cannot carry: messages of the server, and streams of what is not a request."""
    requests = {row.method for row in methods if row.kind == "request"}
    if unknown := [name for name in manifest.streams if name not in requests]:
        raise SchemaError(
            f"{manifest.name}: `streams` names {unknown[0]!r}, which is not a request of the document; correct it",
            at=unknown[0],
        )
    for row in methods:
        if manifest.framing == "http" and row.direction != "client_to_server":
            raise SchemaError(
                f"{manifest.name}: the server sends {row.method!r}, which framing = 'http' cannot carry; use "
                "'lines' or 'headers'",
                at=row.method,
            )


# The files of the package of a protocol: its types, its methods, and a class for each of its two sides.


@dataclass(frozen=True, slots=True)
class _RowView:
    """A method as the templates print it; all its texts are Python."""

    name: str
    call: str
    constant: str
    method: str
    params: str
    result: str
    doc: str
    is_notification: bool
    deprecated: str
    positions: str
    sends_list: bool
    is_also_request: bool
    streams: bool


@dataclass(frozen=True, slots=True)
class _SideView:
    name: str
    module: str
    sends: tuple[_RowView, ...]
    receives: tuple[_RowView, ...]


def render_protocol(
    manifest: ProtocolManifest, revision: Revision, templates: Templates, output: Path
) -> dict[Path, str]:
    """Return the text of each file by path, formatted. A protocol without messages has types only.

    Raises CodegenError if a text of the document would become syntax.
    """
    rows: dict[tuple[Direction, str], _RowView] = {
        (row.direction, row.name): _row(row, revision, manifest.streams) for row in revision.methods
    }
    sides = [_side(revision, rows, side) for side in ("client", "server")] if rows else []
    context: dict[str, Any] = {
        "protocol": _name(manifest.name),
        "version": _name(revision.id),
        "document": _name(manifest.document),
        "sha256": revision.sha256,
        "command": shlex.join(["mcp-codegen", "protocol", "protocol.toml", "--output", output.name]),
        "generator": GENERATOR,
        "is_deprecating": any(defined.deprecated for defined in revision.types.values()),
        "framing": manifest.framing,
        "messages": manifest.messages,
        "cancel": [literal(manifest.cancel[key]) for key in ("method", "property")] if manifest.cancel else [],
        "sides": sides,
        "rows": list({view.constant: view for view in rows.values()}.values()),
        "types": declared_types(revision, templates),
    }
    files = {"__init__.py": "package", "types.py": "types"} | ({"methods.py": "methods"} if rows else {})
    texts = {file: print_template(f"protocol/{name}.py.jinja2", context, templates) for file, name in files.items()}
    verify_types_module(texts["types.py"], revision)
    form = "http" if manifest.framing == "http" else "peer"
    for side in sides:
        texts[f"{side.module}.py"] = print_template(f"protocol/{form}.py.jinja2", context | {"side": side}, templates)
    return format_modules({output / name: text for name, text in texts.items()} | {output / "py.typed": ""}, output)


def _name(text: str) -> str:
    """Return a text that the templates print into comments and docstrings. Raises CodegenError for one with syntax."""
    if not text.isprintable() or '"' in text or "\\" in text:
        raise CodegenError(f"{text!r} cannot be the name of a protocol, a version or a file; use letters and digits")
    return text


def _side(revision: Revision, rows: Mapping[tuple[Direction, str], _RowView], side: str) -> _SideView:
    name = revision.client if side == "client" else revision.server
    sent = "client_to_server" if side == "client" else "server_to_client"
    sends = tuple(_sorted(view for (direction, _), view in rows.items() if direction == sent))
    receives = tuple(_sorted(view for (direction, _), view in rows.items() if direction != sent))
    return _SideView(name, snake(name), sends, receives)


def _sorted(views: Iterable[_RowView]) -> list[_RowView]:
    """Return requests first, each in the order of the document."""
    return sorted(views, key=lambda view: view.is_notification)


def _row(row: Method, revision: Revision, streams: Collection[str]) -> _RowView:
    text = row.doc or f"The {row.kind} `{row.method}`."
    deprecated = f"{row.method} is deprecated in {revision.protocol} {revision.id}" if row.deprecated else ""
    return _RowView(
        name=row.name,
        call=row.name + "_" * (row.name in _RESERVED),
        constant=row.name.upper(),
        method=literal(row.method),
        params=f"t.{row.params}" if row.params is not None else "",
        result=f"t.{row.result}" if row.result is not None else "",
        doc=docstring(text, _INDENT),
        is_notification=row.kind == "notification",
        deprecated=literal(deprecated) if deprecated else "",
        positions="".join(f"{literal(name)}, " for name in row.positions),
        sends_list=row.sends_list,
        streams=row.method in streams,
        is_also_request=row.kind == "notification" and row.name != snake(row.method),
    )
