"""The manifest of a protocol: what its document does not state.

| key         | meaning                                                                                   |
|-------------|-------------------------------------------------------------------------------------------|
| `name`      | the name of the protocol, for texts                                                       |
| `version`   | its version; default: the one of the document                                             |
| `document`  | the file, beside the manifest                                                             |
| `format`    | `json-schema`, `meta-model` or `open-rpc`                                                 |
| `framing`   | over stdio: `lines` (one message a line), or `headers` (`Content-Length` before a message) |
| `params`    | of OpenRPC, where a method leaves it open: `by-name` (default) or `by-position`            |
| `[sides]`   | the names of the classes of the two sides: `client`, which starts the other, and `server` |
| `[cancel]`  | the notification that cancels a request: `method`, and the `property` with the id         |
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ..errors import CodegenError, SchemaError
from ..importer.schema_references import Schema
from .document import ProtocolDocument, require_object
from .json_schema import read_json_schema
from .meta_model import read_meta_model
from .open_rpc import read_open_rpc

DocumentFormat = Literal["json-schema", "meta-model", "open-rpc"]
Framing = Literal["lines", "headers"]
ParamStructure = Literal["by-name", "by-position"]


@dataclass(frozen=True, slots=True)
class ProtocolManifest:
    """The manifest of one protocol."""

    name: str
    document: str
    format: DocumentFormat
    version: str = ""
    framing: Framing = "lines"
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
        ("params", manifest.params, get_args(ParamStructure)),
    ):
        if value not in allowed:
            raise CodegenError(f"{path}: {key} = {value!r} is unknown; set it to {' or '.join(allowed)}")
    names = list(manifest.sides.values())
    if manifest.sides.keys() != {"client", "server"} or not all(str(name).isidentifier() for name in names):
        raise CodegenError(f"{path}: [sides] needs `client` and `server`, each with the name of a class")
    if names[0].lower() == names[1].lower():
        raise CodegenError(f"{path}: both [sides] are named {names[0]}; give them different names")
    if manifest.cancel and manifest.cancel.keys() != {"method", "property"}:
        raise CodegenError(f"{path}: [cancel] needs `method` and `property`")
    return manifest


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
            return read_json_schema(document, manifest.name, manifest.sides)
        case "meta-model":
            return read_meta_model(document, manifest.name)
        case "open-rpc":
            return read_open_rpc(document, manifest.name, manifest.params)
