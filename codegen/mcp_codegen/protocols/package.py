"""The files of the package of a protocol: its types, its methods, and a class for each of its two sides."""

from __future__ import annotations

import keyword
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import CodegenError
from ..model.ir import Method, Revision
from ..model.names import snake
from ..paths import Templates
from ..render.package import declared_types
from ..render.source import GENERATOR, format_modules, print_template
from ..render.types import docstring, literal
from ..render.verify import verify_types_module
from .document import Direction
from .protocol import ProtocolManifest

_INDENT: Final = "        "
_RESERVED: Final = frozenset((*keyword.kwlist, "run", "start", "connect", "asgi"))  # The methods of every peer.


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
