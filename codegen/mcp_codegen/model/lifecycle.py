"""Derive the lifecycle and the HTTP profile of a revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import RuleError
from .ir import (
    Alias,
    Array,
    HTTPProfile,
    Lifecycle,
    Method,
    Object,
    Ref,
    Revision,
    Union,
)
from .overlay import Overlay
from .types import Named


def derive_lifecycle(methods: tuple[Method, ...], revision: str, overlay: Overlay) -> Lifecycle:
    """The one lifecycle of the overlay whose every role is a method of this revision."""
    known = {row.method for row in methods}
    styles = overlay.table("lifecycle", revision)
    fitting = [style for style, row in styles.rows.items() if set(row.use.values()) <= known]
    if len(fitting) != 1:
        lacking = {style: sorted(set(row.use.values()) - known) for style, row in styles.rows.items()}
        raise RuleError(
            f"{revision}: its methods fit {' and '.join(fitting) or 'no lifecycle'}; exactly one of "
            f"{', '.join(styles.rows) or 'the lifecycles (overlay.toml has none)'} has to fit",
            rule="lifecycle",
            at="methods",
            tried=[f"{style}: it lacks {', '.join(methods) or 'nothing'}" for style, methods in lacking.items()],
        )
    return Lifecycle(fitting[0], dict(styles.use(fitting[0])))


def derive_http(
    methods: tuple[Method, ...], constants: Mapping[str, object], style: str, revision: str, overlay: Overlay
) -> HTTPProfile:
    """What the overlay says of the style, if anything, of the methods and errors there are, less what this revision
    is without."""
    styles, without = overlay.table("http", revision), overlay.table("http_without", revision)
    if style not in styles:
        return HTTPProfile(
            streamable=True,
            version_header=True,
            priming_event=False,
            resource_metadata=True,
            name_params={},
            statuses={},
        )
    found = dict(styles.use(style))
    for feature in without.rows:
        if feature not in found:
            raise RuleError(f"{revision}: {without.rows[feature]} is nothing that [[http]] says of {style!r}")
        found[feature] = without.use(feature)
    known = {row.method for row in methods}
    found["name_params"] = {method: name for method, name in found["name_params"].items() if method in known}
    found["statuses"] = {name: status for name, status in found["statuses"].items() if name in constants}
    for key in ("tool_schemas", "tool_call"):
        found[key] = found.get(key, "") if found.get(key) in known else ""
    return HTTPProfile(**found)


def check_http(revisions: Iterable[Revision], overlay: Overlay) -> None:
    """Raise RuleError for a method or an error of an [[http]] row that no revision of its style has."""
    held: dict[str, set[str]] = {}
    for each in revisions:
        names = {row.method for row in each.methods} | set(each.constants)
        held.setdefault(each.lifecycle.style, set()).update(names)
    for row in overlay.rows:
        if row.table == "http" and row.place in held:
            said = {
                *row.use["name_params"],
                *row.use["statuses"],
                row.use.get("tool_schemas", ""),
                row.use.get("tool_call", ""),
            }
            if unknown := said - held[row.place] - {""}:
                raise RuleError(f"{row} names {min(unknown)!r}, which no revision of this style has", rule="http")


def has_batches(types: Named) -> bool:
    """Whether a message on the wire may be an array of messages: one of the forms of JSONRPCMessage is one."""
    message = types.get("JSONRPCMessage")
    arms = message.type.arms if isinstance(message, Alias) and isinstance(message.type, Union) else ()
    forms = [types[arm.name] for arm in arms if isinstance(arm, Ref)]
    return any(isinstance(form, Alias) and isinstance(form.type, Array) for form in forms)


def has_null_ids(types: Named) -> bool:
    """Whether an error always has an id, so that JSON-RPC's `null` stands where none could be read."""
    error = types.get("JSONRPCErrorResponse") or types.get("JSONRPCError")
    id = error.field("id") if isinstance(error, Object) else None
    return id is not None and id.required
