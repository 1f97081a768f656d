"""Resources: a text, an image, a status, numbers by template, and notes that a tool writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from connection_state import NOT_FOUND, PNG, State, make

from mcp_generated import JSONRPCError

STATUS: Final = "demo://status"
NUMBERS: Final = 1000

_FIXED: Final[Mapping[str, Mapping[str, Any]]] = {
    "demo://text": {"name": "text", "description": "A text.", "mime_type": "text/plain", "size": 6},
    "demo://image": {"name": "image", "description": "One blue pixel.", "mime_type": "image/png"},
    STATUS: {"name": "status", "description": "The state of the connection.", "mime_type": "application/json"},
    **{
        f"demo://number/{n}": {"name": f"number {n}", "description": "A number.", "mime_type": "text/plain"}
        for n in range(4)
    },
}


def definitions(t: Any, state: State) -> list[Any]:
    """Return the definitions of the resources: four numbers, and all other resources without a template."""
    notes = {f"note://{name}": {"name": name, "mime_type": "text/plain"} for name in state.notes}
    hints = t.Annotations(audience=["user", "assistant"], priority=0.5)
    return [
        make(t.Resource, uri=uri, title=fields["name"].title(), annotations=hints, **fields)
        for uri, fields in {**_FIXED, **notes}.items()
    ]


def templates(t: Any) -> list[Any]:
    """Return the resource templates."""
    return [
        make(
            t.ResourceTemplate,
            uri_template="demo://number/{n}",
            name="number",
            title="Number",
            description=f"A number below {NUMBERS}.",
            mime_type="text/plain",
        ),
        make(t.ResourceTemplate, uri_template="note://{name}", name="note", title="Note", mime_type="text/plain"),
    ]


def contents(t: Any, state: State, uri: str) -> list[Any]:
    """Return the contents of a resource. Raises JSONRPCError if it does not exist."""
    if uri == "demo://image":
        return [t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)]
    if uri == STATUS:
        return [t.TextResourceContents(uri=uri, mime_type="application/json", text=_status(state))]
    return [t.TextResourceContents(uri=uri, mime_type="text/plain", text=_text(state, uri))]


def check_exists(state: State, uri: str) -> None:
    """Raise JSONRPCError if the resource does not exist."""
    if uri not in _FIXED:
        _text(state, uri)


def link(t: Any, uri: str) -> Any:
    """Return a resource link, in the versions that have links."""
    return t.ResourceLink(uri=uri, **_FIXED[uri])


def _text(state: State, uri: str) -> str:
    scheme, _, name = uri.partition("://")
    kind, _, digits = name.partition("/")
    if uri == "demo://text":
        return "héllo"
    if scheme == "note" and name in state.notes:
        return state.notes[name]
    if scheme == "demo" and kind == "number" and digits in map(str, range(NUMBERS)):
        return f"This is number {digits}."
    raise JSONRPCError(NOT_FOUND, "there is no such resource", {"uri": uri})


def _status(state: State) -> str:
    return json.dumps({"cancelled": state.cancelled, "roots": state.roots, "subscribed": sorted(state.subscribed)})
