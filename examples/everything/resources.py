"""Resources: a text, an image, a status, numbers by template, and notes that a tool writes and clients can watch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from conversation import NOT_FOUND, PNG, State, make
from mcp_runtime.errors import JSONRPCError

STATUS: Final = "demo://status"
NUMBERS: Final = 1000

_FIXED: Final[Mapping[str, Mapping[str, Any]]] = {
    "demo://text": {"name": "text", "description": "A text.", "mime_type": "text/plain", "size": 6},
    "demo://image": {"name": "image", "description": "One blue pixel.", "mime_type": "image/png"},
    STATUS: {"name": "status", "description": "What has happened so far.", "mime_type": "application/json"},
    **{
        f"demo://number/{n}": {"name": f"number {n}", "description": "A number.", "mime_type": "text/plain"}
        for n in range(4)
    },
}


def listed(t: Any, state: State) -> list[Any]:
    """The resources; most numbers are not among them, only their template is."""
    notes = {f"note://{name}": {"name": name, "mime_type": "text/plain"} for name in state.notes}
    hints = t.Annotations(audience=["user", "assistant"], priority=0.5)
    return [
        make(t.Resource, uri=uri, title=about["name"].title(), annotations=hints, **about)
        for uri, about in {**_FIXED, **notes}.items()
    ]


def templates(t: Any) -> list[Any]:
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
    """What is in a resource. Raises JSONRPCError where there is none."""
    if uri == "demo://image":
        return [t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)]
    if uri == STATUS:
        return [t.TextResourceContents(uri=uri, mime_type="application/json", text=_status(state))]
    return [t.TextResourceContents(uri=uri, mime_type="text/plain", text=_text(state, uri))]


def exists(state: State, uri: str) -> None:
    """Raise JSONRPCError where there is no such resource."""
    if uri not in _FIXED:
        _text(state, uri)


def link(t: Any, uri: str) -> Any:
    """A pointer to one of the resources above, in the revisions that have pointers."""
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
    return json.dumps({"cancelled": state.cancelled, "roots": state.roots, "watched": sorted(state.watched)})
