"""What the runtime has to know of a revision: its lifecycle, its use of HTTP, its error codes, its capabilities, and
the names that the runtime has by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..errors import Finding, RuleError
from . import ir
from .names import snake
from .overlay import Overlay
from .types import NamedTypes

# The HTTP profile of a lifecycle of which nothing is said.
PLAIN_HTTP: Final[Mapping[str, Any]] = {
    "streamable": True,
    "version_header": True,
    "priming_event": False,
    "resource_metadata": True,
    "name_params": {},
    "statuses": {},
}
CAPABILITIES: Final = {"client": "ClientCapabilities", "server": "ServerCapabilities"}
# After this marker, the path of a capability has one name, which may contain dots, then `#` and a setting of it.
_EXTENSIONS: Final = ".extensions."

_OWN: Final = "io.modelcontextprotocol/"
# By the type that has the property: the properties, and what the runtime does with them.
BY_HAND: Final = {
    "RequestMetaObject": (
        (
            "progressToken",
            *(f"{_OWN}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel")),
        ),
        "read which version and client a request is of",
    ),
    "ResultMetaObject": ((f"{_OWN}serverInfo",), "say which server a result is of"),
    "NotificationMetaObject": ((f"{_OWN}subscriptionId",), "pass a change to its subscription"),
    "CancelledNotificationParams": (("requestId", "reason"), "cancel a request"),
    "ProgressNotificationParams": (("progressToken", "progress", "total", "message"), "report progress"),
    "LoggingMessageNotificationParams": (("level", "data", "logger"), "send log messages"),
    "DiscoverResult": (("supportedVersions", "capabilities", "instructions"), "discover a server"),
    "CacheableResult": (("ttlMs", "cacheScope"), "keep results"),
    "PaginatedResult": (("nextCursor",), "follow the pages of a list"),
    "PaginatedRequestParams": (("cursor",), "follow the pages of a list"),
    "InputRequiredResult": (("inputRequests", "requestState"), "ask for input"),
    "InputResponseRequestParams": (("inputResponses", "requestState"), "answer requests for input"),
    "SubscriptionsListenRequestParams": (("notifications",), "subscribe"),
    "SubscriptionsAcknowledgedNotificationParams": (("notifications",), "subscribe"),
    "ResourceUpdatedNotificationParams": (("uri",), "notify subscribers"),
}
# Those that the runtime takes from the tables of a revision: the rules of HTTP for the headers of tools.
FROM_TABLES: Final = ("Tool.inputSchema", "Tool.name", "ListToolsResult.tools", "CallToolRequestParams.arguments")


def derive_lifecycle(methods: tuple[ir.Method, ...], revision: str, overlay: Overlay) -> ir.Lifecycle:
    """Return the one lifecycle of the overlay whose roles are all methods of this revision."""
    names = {row.method for row in methods}
    styles = overlay.table("lifecycle", revision)
    by_style = {
        style: {role: overlay.present(method, names) for role, method in row.use.items()}
        for style, row in styles.rows.items()
    }
    fitting = [style for style, roles in by_style.items() if set(roles.values()) <= names]
    if len(fitting) != 1:
        missing = {style: sorted(set(roles.values()) - names) for style, roles in by_style.items()}
        raise RuleError(
            f"{revision}: its methods fit {' and '.join(fitting) or 'no lifecycle'}, but must fit exactly one of "
            f"{', '.join(styles.rows) or 'the lifecycles (overlay.toml has none)'}; add or correct a [[lifecycle]] "
            "row, or a row of [[rename]] in conversions.toml for a method that has another name",
            rule="lifecycle",
            at="methods",
            tried=[f"{style}: missing {', '.join(methods) or 'nothing'}" for style, methods in missing.items()],
        )
    _ = styles.use(fitting[0])
    return ir.Lifecycle(fitting[0], by_style[fitting[0]])


def derive_http(
    methods: tuple[ir.Method, ...],
    types: NamedTypes,
    constants: Mapping[str, object],
    style: str,
    revision: str,
    overlay: Overlay,
) -> ir.HTTPProfile:
    """Return the HTTP profile of the lifecycle style: the [[http]] row, limited to the methods and errors of this
    revision, less its [[http_without]] rows."""
    styles, without = overlay.table("http", revision), overlay.table("http_without", revision)
    if style not in styles:
        return ir.HTTPProfile(**PLAIN_HTTP)
    values = dict(styles.use(style))
    for feature in without.rows:
        if feature not in values:
            raise RuleError(
                f"{revision}: {without.rows[feature]} is not a key of the [[http]] row of {style!r}; correct the row"
            )
        values[feature] = without.use(feature)
    rows = {row.method: row for row in methods}
    names = rows.keys()
    params = {overlay.present(method, names): name for method, name in values["name_params"].items()}
    values["name_params"] = {
        method: _param_name(rows[method], name, types, overlay) for method, name in params.items() if method in names
    }
    values["statuses"] = {name: status for name, status in values["statuses"].items() if name in constants}
    _check_statuses(values["statuses"], constants, style, revision, overlay)
    for key in ("tool_schemas", "tool_call"):
        method = overlay.present(values.get(key, ""), names)
        values[key] = method if method in names else ""
    return ir.HTTPProfile(**values)


def _check_statuses(
    statuses: Mapping[str, int], constants: Mapping[str, object], style: str, revision: str, overlay: Overlay
) -> None:
    """Raise RuleError for an error of the range that a lifecycle reserves for the specification, and that has no HTTP
    status, if others have one."""
    codes = overlay.table("codes", revision)
    ranges = [(item["first"], item["last"]) for item in codes.rows[style].use] if style in codes and statuses else []
    for name, code in constants.items():
        if name not in statuses and isinstance(code, int) and any(first <= code <= last for first, last in ranges):
            raise RuleError(
                f"{revision}: the schema does not say which HTTP status the error {name} ({code}) has; write it into "
                f"`use.statuses` of the [[http]] row of {style!r} in schema/overlay.toml, such as {name} = 400",
                rule="http",
                at=name,
            )


def _param_name(row: ir.Method, name: str, types: NamedTypes, overlay: Overlay) -> str:
    """Return the name that a property of the params of a request has in this revision."""
    params = types.get(row.params or "")
    places = (
        {f"{row.params}.{field.wire}": field.wire for field in params.fields} if isinstance(params, ir.Object) else {}
    )
    return places.get(overlay.present(f"{row.params}.{name}", places), name)


def check_http(revisions: Iterable[ir.Revision], overlay: Overlay) -> None:
    """Raise RuleError if an [[http]] row names a method or an error that no revision of its style has."""
    names_by_style: dict[str, set[str]] = {}
    for revision in revisions:
        names = {row.method for row in revision.methods} | set(revision.constants)
        names_by_style.setdefault(revision.lifecycle.style, set()).update(names)
    for row in overlay.rows:
        if row.table == "http" and row.place in names_by_style:
            named = {
                *row.use["name_params"],
                *row.use["statuses"],
                row.use.get("tool_schemas", ""),
                row.use.get("tool_call", ""),
            }
            if unknown := named - names_by_style[row.place] - {""}:
                raise RuleError(
                    f"{row} names {min(unknown)!r}, which no revision of this style has; correct the row", rule="http"
                )


def has_batches(types: NamedTypes) -> bool:
    """Return True if a message may be an array of messages: one arm of JSONRPCMessage is an array."""
    message = types.get("JSONRPCMessage")
    arms = message.type.arms if isinstance(message, ir.Alias) and isinstance(message.type, ir.Union) else ()
    arm_types = [types[arm.name] for arm in arms if isinstance(arm, ir.Ref)]
    return any(isinstance(arm_type, ir.Alias) and isinstance(arm_type.type, ir.Array) for arm_type in arm_types)


def has_null_ids(types: NamedTypes) -> bool:
    """Return True if an error always has an id, so that the id of an unreadable request is JSON-RPC's `null`."""
    error = types.get("JSONRPCErrorResponse") or types.get("JSONRPCError")
    id = error.field("id") if isinstance(error, ir.Object) else None
    return id is not None and id.required


# The error codes that a revision reserves, and the code that is sent instead of each.


def derive_error_codes(
    constants: Mapping[str, str | int], style: str, revision: str, overlay: Overlay
) -> tuple[ir.ReservedErrorCodes, ...]:
    """Return the error codes that the overlay reserves for this style of lifecycle. Raises RuleError if the code to
    send instead is not a constant of the schema."""
    rows = overlay.table("codes", revision)
    entries: list[dict[str, Any]] = rows.use(style) if style in rows else []
    for entry in entries:
        if entry["instead"] not in constants:
            raise RuleError(
                f"{revision}: {rows.rows[style]} names {entry['instead']!r}, which is not a constant of the "
                "schema; correct the row"
            )
    return tuple(
        ir.ReservedErrorCodes(entry["first"], entry["last"], int(constants[entry["instead"]])) for entry in entries
    )


# The capabilities of a revision: their paths, and the params that need a further capability.


def declared_path(types: NamedTypes, side: str, segments: list[str]) -> list[str]:
    """Return the side and as many of the segments as its capabilities type has, nested; an empty list if it has
    none."""
    path = [side]
    at: ir.Type = ir.Ref(CAPABILITIES[side])
    for segment in segments:
        fields = (field for holder in _objects(types, at) for field in holder.fields)
        field = next((candidate for candidate in fields if candidate.name == snake(segment)), None)
        if field is None:
            break
        path.append(field.wire)
        at = field.type
    return path if len(path) > 1 else []


def has_capability(types: NamedTypes, capability: str) -> bool:
    """Return True if a side of this revision can declare this capability, side first."""
    prefix, extension, _ = capability.partition(_EXTENSIONS)
    side, *path = f"{prefix}{extension.rstrip('.')}".split(".")
    return side in CAPABILITIES and len(declared_path(types, side, path)) == len(path) + 1


class CapabilityRequirements:
    """The rows of [[requirement]] that apply to one revision: it has their type, property, values and capability."""

    def __init__(self, types: NamedTypes, revision: str, overlay: Overlay) -> None:
        self._types = types
        self._rows = overlay.table("requirement", revision)

    def of(self, params: str | None) -> tuple[ir.CapabilityRequirement, ...]:
        """Return the requirements of params of this type, or of one arm of a union."""
        arms = list(_arms(self._types, params))
        requirements: list[ir.CapabilityRequirement] = []
        for place, row in self._rows.rows.items():
            name, _, wire = place.partition(".")
            holder = self._types.get(name)
            field = holder.field(wire) if isinstance(holder, ir.Object) and wire else None
            if name not in arms or (wire and field is None) or not has_capability(self._types, row.use["capability"]):
                continue
            use = row.use
            values = tuple(value for value in use.get("values", ()) if field and value in _possible(field.type))
            if "values" in use and not values:
                continue
            self._rows.use(place)
            attribute = "" if field is None else field.name
            implied_by_empty, sender_only = bool(use.get("implied_by_empty")), bool(use.get("sender_only"))
            requirements.append(
                ir.CapabilityRequirement(name, use["capability"], attribute, values, implied_by_empty, sender_only)
            )
        return tuple(requirements)


def _objects(types: NamedTypes, written: ir.Type) -> Iterator[ir.Object]:
    """Yield the object types that a type may mean."""
    if isinstance(written, ir.Union):
        for arm in written.arms:
            yield from _objects(types, arm)
    elif isinstance(written, ir.Ref):
        for name in _arms(types, written.name):
            target = types[name]
            if isinstance(target, ir.Object):
                yield target


def _arms(types: NamedTypes, name: str | None) -> Iterator[str]:
    """Yield the object types that this name may mean."""
    type = types.get(name or "")
    if isinstance(type, ir.Object):
        yield type.name
    elif isinstance(type, ir.Alias):
        for arm in type.type.arms if isinstance(type.type, ir.Union) else (type.type,):
            yield from _arms(types, arm.name if isinstance(arm, ir.Ref) else None)


def _possible(written: ir.Type) -> set[object]:
    return set(written.values) if isinstance(written, ir.Values) else set()


# The names of properties that the runtime has by hand, though it uses them in messages of every revision.
#
# What belongs to an app is in one revision, and reaches all others by conversion. The lifecycle is not: it is that of
# each connection. Rows of `[[rename]]` may give properties other names: the tables of a revision tell the runtime those
# of `FROM_TABLES`, and those of `BY_HAND` stop an import.


def other_names(types: NamedTypes, overlay: Overlay) -> dict[str, str]:
    """Return the properties of `FROM_TABLES` that have other names in these types, by their places."""
    names: dict[str, str] = {}
    for place in FROM_TABLES:
        name, _, wire = place.partition(".")
        defined = types.get(name)
        if isinstance(defined, ir.Object) and defined.field(wire) is None:
            present = overlay.present(place, {f"{name}.{field.wire}" for field in defined.fields})
            names |= {place: present.removeprefix(f"{name}.")} if present != place else {}
    return names


def check_known_names(revision: ir.Revision, overlay: Overlay) -> Iterator[Finding]:
    """Yield a finding for each property with another name in this revision, which the runtime has by hand."""
    for name, (wires, use) in BY_HAND.items():
        defined = revision.types.get(name)
        for wire in wires if isinstance(defined, ir.Object) else ():
            assert isinstance(defined, ir.Object)
            place = f"{name}.{wire}"
            present = overlay.present(place, {f"{name}.{field.wire}" for field in defined.fields})
            if present != place and defined.field(wire) is None:
                text = (
                    f"{revision.id}: {place} has the name {present.removeprefix(f'{name}.')!r} now, but the runtime "
                    f"has the old one by hand to {use}; write the code that takes it from the tables of a revision, "
                    "and remove it from mcp_codegen/model/lifecycle.py"
                )
                yield Finding("names", place, text)
