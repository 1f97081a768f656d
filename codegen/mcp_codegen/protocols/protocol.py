"""A protocol in the intermediate representation: a revision without a lifecycle and without HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ..errors import SchemaError
from ..importer.pins import digest
from ..model.docs import Docs
from ..model.ir import HTTPProfile, Lifecycle, Method, Revision
from ..model.names import type_name
from ..model.overlay import Overlay, OverlayRow
from ..model.types import NamedTypes, read_types
from .document import ProtocolDocument, ProtocolMessage
from .protocol_manifest import ProtocolManifest, read_document, read_protocol_manifest

_NO_HTTP: Final = HTTPProfile(False, False, False, False, {}, {})


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
    names = _python_names(document.schema["$defs"])
    rows = [OverlayRow("name", key, name, type_name(key), ()) for key, name in names.items() if name != type_name(key)]
    try:
        types = read_types(document.schema, manifest.name, Overlay(tuple(rows)), Docs())
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise SchemaError(f"{manifest.name}: the document has a form that cannot be read: {error!r}") from error
    methods = tuple(_method(message, types, names, manifest.name) for message in document.messages)
    _check_names(methods, manifest.name)
    return Revision(
        id=version,
        constants={},
        types=types,
        methods=methods,
        lifecycle=Lifecycle("none", {}),
        http=_NO_HTTP,
        reserved_codes=(),
        batches=False,
        null_ids=False,
        sha256=sha256,
        client=manifest.sides["client"],
        server=manifest.sides["server"],
        protocol=manifest.name,
    )


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
        if other != row.method or not row.name.isidentifier():
            raise SchemaError(
                f"{protocol}: the methods {other!r} and {row.method!r} would have the Python name {row.name!r}; "
                "rename one",
                rule="name",
                at=row.method,
            )
