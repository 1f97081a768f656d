"""The changes that are no change of a method or of a type: constants, error codes, the lifecycle, and HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..model.ir import ReservedErrorCodes, Revision, Side
from .changes import DiffChange
from .definitions import METHOD_HEADER, NAME_HEADER
from .witness import Evidence, http_values, no_type

_BOTH: Final[Sequence[Side]] = ("client", "server")
# The features of the HTTP transport, and the side whose messages they change.
_HTTP: Final[dict[str, Side]] = {
    "streamable": "server",
    "version_header": "client",
    "priming_event": "server",
    "resource_metadata": "server",
}


def overall_changes(old: Revision, new: Revision, evidence: Evidence) -> Iterator[DiffChange]:
    """Yield the changes from one revision to another that concern no single method or type."""
    yield from _constants(old, new, evidence)
    yield from _codes(old, new, evidence)
    message = {"jsonrpc": "2.0", "id": 1, "method": "text"}
    if old.batches != new.batches:
        rule = "batches-added" if new.batches else "batches-removed"
        place = no_type("text", [[message]])
        yield evidence.change(rule, "JSONRPCMessage", old.batches, new.batches, senders=_BOTH, place=place)
    if old.null_ids != new.null_ids:
        error = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "not JSON"}}
        place = no_type("unreadable", [error, {**error, "id": None}])
        at = "JSONRPCErrorResponse.id"
        yield evidence.change("error-id", at, old.null_ids, new.null_ids, senders=_BOTH, place=place)
    if old.lifecycle.style != new.lifecycle.style:
        rows = [row for side in (old, new) for row in side.methods if row.direction == "client_to_server"]
        place = no_type("first", (call for row in rows for call in evidence.calls(row)[:3]))
        styles = (old.lifecycle.style, new.lifecycle.style)
        yield evidence.change("lifecycle-changed", "lifecycle", *styles, senders=["client"], place=place)
    yield from _http(old, new, evidence)


def _constants(old: Revision, new: Revision, evidence: Evidence) -> Iterator[DiffChange]:
    for name in (*old.constants, *(name for name in new.constants if name not in old.constants)):
        before, after = old.constants.get(name), new.constants.get(name)
        if before == after:
            continue
        rule = "constant-added" if before is None else "constant-removed" if after is None else "constant-changed"
        rule = "revision-id" if (before, after) == (old.id, new.id) else rule
        place = no_type("constants", [value for value in (before, after) if value is not None])
        yield evidence.change(rule, name, before, after, senders=_BOTH, place=place)


def _codes(old: Revision, new: Revision, evidence: Evidence) -> Iterator[DiffChange]:
    """Yield the error codes that only one of the revisions reserves, with the code that is sent instead."""
    for rule, codes, others in (
        ("code-reserved", new.reserved_codes, old.reserved_codes),
        ("code-free", old.reserved_codes, new.reserved_codes),
    ):
        for reserved in codes:
            if reserved not in others:
                text = _range(reserved)
                texts = (text, reserved.replacement) if rule == "code-reserved" else (reserved.replacement, text)
                values = ({"code": code, "message": "text"} for code in range(reserved.first, reserved.last + 1))
                place = no_type("codes", values)
                yield evidence.change(rule, f"errors.{text}", *texts, senders=_BOTH, place=place)


def _range(reserved: ReservedErrorCodes) -> str:
    return str(reserved.first) if reserved.first == reserved.last else f"{reserved.first}..{reserved.last}"


def _http(old: Revision, new: Revision, evidence: Evidence) -> Iterator[DiffChange]:
    for feature, sender in _HTTP.items():
        before, after = getattr(old.http, feature), getattr(new.http, feature)
        if before != after:
            place = no_type(f"http {feature}", http_values(feature))
            yield evidence.change("http-changed", f"http.{feature}", before, after, senders=[sender], place=place)
    for method in dict.fromkeys((*old.http.name_params, *new.http.name_params)):
        names = [side.http.name_params.get(method) for side in (old, new)]
        if names[0] != names[1]:
            shown = [f"{METHOD_HEADER}, {NAME_HEADER}: params.{name}" if name else "" for name in names]
            feature = f"headers {method}"
            place = no_type(f"http {feature}", http_values(feature))
            yield evidence.change("http-changed", f"http.{feature}", *shown, senders=["client"], place=place)
    if bool(old.http.tool_schemas) != bool(new.http.tool_schemas):
        texts = (old.http.tool_schemas, new.http.tool_schemas)
        place = no_type("http tool_headers", http_values("tool_headers"))
        yield evidence.change("http-changed", "http.tool_headers", *texts, senders=["client"], place=place)
