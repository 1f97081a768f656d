"""Prepare the methods of a revision for the templates: names, parameters and annotations, as Python text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..errors import RuleError
from ..model import ir
from ..model.names import callable_name, parameter_name, snake
from .types import annotation, deprecation, docstring, link, literal

# What the runtime does by itself, by the role a method has in the lifecycle.
_SENT_BY_RUNTIME: Final = frozenset(
    {"initialize_request", "initialized", "cancelled", "progress", "log", "listen", "acknowledged"}
)
_HANDLED_BY_RUNTIME: Final = frozenset(
    {"initialize_request", "initialized", "ping_request", "cancelled", "progress", "discover", "listen"}
)

_ROWS: Final = {"request": "Request", "notification": "Notification", "input_request": "InputRequest"}
_REQUEST_TO: Final = "A request to "
_ARTICLES: Final = ("A ", "An ")
TABLES: Final = {"client_to_server": "FromClient", "server_to_client": "FromServer"}
# How a change is chosen, by the properties that tell what has changed.
_CHOICES: Final[Mapping[tuple[str, ...], str]] = {(): "bool", ("uri",): "Sequence[str]"}
# Further names of what a handler asks for.
_ALSO: Final = {"create_message": "sample"}
# Types that are JSON of any shape, as a caller gives them: pyright cannot follow the recursive one from a parameter.
_JSON: Final = {"t.JSONObject": "dict[str, Any]"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a call. `wire` is a Python literal; a `positional` one may also be passed by keyword."""

    name: str
    wire: str
    hint: str
    required: bool
    positional: bool


@dataclass(frozen=True, slots=True)
class TaskVariant:
    """The twin of a call, which asks for the interim result instead."""

    name: str
    result: str
    fields: tuple[Parameter, ...]
    whole: str
    doc: str


@dataclass(frozen=True, slots=True)
class PagingVariant:
    """The twin of a call that gives one page: it gives every item of the list, one after the other."""

    name: str
    items: str
    item: str
    fields: tuple[Parameter, ...]
    doc: str
    list_doc: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class ListenKeyword:
    """A change that a client may listen to: the keyword that chooses it, and the type that tells of it."""

    name: str
    hint: str
    type: str


@dataclass(frozen=True, slots=True)
class MethodView:
    """One row, ready to print: `name` sends it, `handler` receives it, `constant` is its row."""

    kind: str
    row: str
    direction: str
    method: str
    name: str
    handler: str
    constant: str
    params: str
    params_required: bool
    result: str
    returns: str
    interim: tuple[str, ...]
    answer: str
    capability: str
    requirements: tuple[str, ...]
    listed: str
    fields: tuple[Parameter, ...]
    whole: str
    task: TaskVariant | None
    pages: PagingVariant | None
    doc: str
    handler_doc: str
    also: str
    sent: bool
    handled: bool
    published: bool
    listen: ListenKeyword | None
    deprecated: str


def method_views(revision: ir.Revision, own: frozenset[str] = frozenset()) -> dict[str, tuple[MethodView, ...]]:
    """Return the rows of both directions by the name of their table.

    `own` are the types of an extension: a caller gets those of them that are interim results.
    """
    roles = {method: role for role, method in revision.lifecycle.roles.items()}
    result: dict[str, tuple[MethodView, ...]] = {}
    for direction, table in TABLES.items():
        rows = [_method_view(row, revision, roles, own) for row in revision.methods if row.direction == direction]
        constants = [row.constant for row in rows]
        for constant in constants:
            if constants.count(constant) > 1:
                raise RuleError(f"{revision.id}: two messages of one direction would be called {constant}")
        result[table] = tuple(rows)
    return result


def roles(revision: ir.Revision, tables: Mapping[str, tuple[MethodView, ...]]) -> list[dict[str, str]]:
    """Return each role of the lifecycle with its row, the first in the tables that has the method."""
    rows = {call.method: f"{table}.{call.constant}" for table in reversed(list(tables)) for call in tables[table]}
    return [{"name": role, "row": rows[literal(method)]} for role, method in revision.lifecycle.roles.items()]


def http(revision: ir.Revision, tables: Mapping[str, tuple[MethodView, ...]]) -> list[tuple[str, str]]:
    """Return the keywords of the revision's HTTPProfile, with their values."""
    profile = revision.http
    rows = {call.method: f"FromClient.{call.constant}" for call in tables["FromClient"]}
    names = ", ".join(f"{literal(method)}: {literal(name)}" for method, name in profile.name_params.items())
    constants = revision.constants
    statuses = ", ".join(f"{int(constants[name])}: {status}" for name, status in profile.statuses.items())
    features = ("streamable", "version_header", "priming_event", "resource_metadata")
    result = [(feature, ascii(getattr(profile, feature))) for feature in features]
    result += [("name_params", f"{{{names}}}"), ("statuses", f"{{{statuses}}}")]
    lists = ("tool_schemas", "tool_call")
    return result + [(key, rows[literal(getattr(profile, key))]) for key in lists if getattr(profile, key)]


def _method_view(
    row: ir.Method, revision: ir.Revision, roles_by_method: Mapping[str, str], own: frozenset[str]
) -> MethodView:
    role = roles_by_method.get(row.method)
    stem = callable_name(row.name)
    on_client = row.direction == "server_to_client"
    fields = _fields(row, revision)
    address = "" if row.type in own else link(revision, row.type)
    optional_interim = next((interim for interim in row.interim if interim.value is None), None)
    positional = _positional(row, revision)
    plain = tuple(
        _parameter(field, positional)
        for field in fields
        if optional_interim is None or field.wire != optional_interim.property
    )
    whole = f"t.{row.params}" if row.params is not None and _is_union(row.params, revision) else ""
    notification = row.kind == "notification"
    answers = [name for name in (row.result, *(interim.type for interim in row.interim)) if name is not None]
    # A flag below a feature of the server: it is about the server, and concerns all its clients.
    announced = notification and on_client and row.capability.startswith("server.") and row.capability.count(".") > 1
    return MethodView(
        kind=row.kind,
        row=_ROWS[row.kind],
        direction=row.direction,
        method=literal(row.method),
        name=f"notify_{row.name}" if notification else stem,
        handler=f"on_{row.name}" if notification or on_client else stem,
        constant=row.name.upper(),
        params=f"t.{row.params}" if row.params is not None else "None",
        params_required=row.params_required,
        result=f"t.{row.result}" if row.result is not None else "",
        returns=" | ".join(f"t.{name}" for name in answers if name == row.result or name in own) or "None",
        interim=tuple(_interim(interim) for interim in row.interim),
        answer=" | ".join(f"t.{name}" for name in answers) or "None",
        capability=literal(row.capability) if row.capability else "",
        requirements=tuple(_requirement(gate) for gate in row.requirements),
        listed="" if row.listed is None else f"({', '.join(map(literal, row.listed))})",
        fields=plain,
        whole=whole,
        task=None if optional_interim is None else _task(row, revision, whole, optional_interim, address),
        pages=_pages(row, revision),
        doc=docstring(_send(row), "        ", address),
        handler_doc=docstring(_handle(row), "        ", address),
        also=_ALSO.get(row.name, ""),
        sent=role not in _SENT_BY_RUNTIME,
        handled=role not in _HANDLED_BY_RUNTIME or (role == "initialized" and bool(revision.lifecycle.fields)),
        published=announced,
        listen=_listen_keyword(row, fields) if announced else None,
        deprecated=literal(deprecation(row.type, revision)) if row.deprecated else "",
    )


def _listen_keyword(row: ir.Method, fields: list[ir.Field]) -> ListenKeyword | None:
    """How a client chooses to hear of a change: of each one, or of those of the resources that it names."""
    hint = _CHOICES.get(tuple(field.wire for field in fields if field.required))
    return None if hint is None else ListenKeyword(parameter_name(row.name), hint, f"t.{row.type}")


def _send(row: ir.Method) -> str:
    """Return the first sentence of the method that sends it: "A request to call a tool." becomes "Call a tool."."""
    if not row.doc:
        return _marked(f"Send `{row.method}`.", row)
    if row.doc.startswith(_REQUEST_TO):
        text = row.doc.removeprefix(_REQUEST_TO)
        return _marked(text[:1].upper() + text[1:], row)
    return _marked(f"Send {_lowered(row.doc)}" if row.doc.startswith(_ARTICLES) else row.doc, row)


def _handle(row: ir.Method) -> str:
    """Return the first sentence of the method that receives it."""
    if not row.doc:
        return _marked(f"Handle `{row.method}`.", row)
    return _marked(f"Handle {_lowered(row.doc)}" if row.doc.startswith(_ARTICLES) else row.doc, row)


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _marked(text: str, row: ir.Method) -> str:
    return f"{text} Deprecated." if row.deprecated else text


def _fields(row: ir.Method, revision: ir.Revision) -> list[ir.Field]:
    """Return the properties that a caller passes, positional ones first. Metadata belongs to the options of a call."""
    params = revision.types[row.params] if row.params is not None else None
    fields = [field for field in params.fields if field.wire != "_meta"] if isinstance(params, ir.Object) else []
    positional = _positional(row, revision)
    order = {wire: number for number, wire in enumerate(positional)}
    return sorted(fields, key=lambda field: order.get(field.wire, len(order)))


def _positional(row: ir.Method, revision: ir.Revision) -> list[str]:
    """Return the wire names of the properties that may be passed by position: the required ones, and after a single
    required one the first optional one that the params do not inherit (`call_tool("add", {"a": 1})`)."""
    params = revision.types[row.params] if row.params is not None else None
    if not isinstance(params, ir.Object):
        return []
    required = [field.wire for field in params.fields if field.required and field.wire != "_meta"]
    optional = [field.wire for field in revision.own_fields(params) if not field.required and field.wire != "_meta"]
    return [*required, *optional[:1]] if len(required) == 1 else required


def _task(row: ir.Method, revision: ir.Revision, whole: str, interim: ir.InterimResult, address: str) -> TaskVariant:
    """Return the variant that asks for the interim result: the property for it is a required keyword there."""
    stem, positional = callable_name(row.name), _positional(row, revision)
    required = [
        replace(field, required=True) if field.wire == interim.property else field for field in _fields(row, revision)
    ]
    parameters = tuple(_parameter(field, positional) for field in required)
    name = snake(interim.property)
    doc = docstring(f"{_send(row)} Run it as a {name}, and return its `{interim.type}`.", "        ", address)
    return TaskVariant(f"{stem}_as_{name}", f"t.{interim.type}", parameters, whole, doc)


def _pages(row: ir.Method, revision: ir.Revision) -> PagingVariant | None:
    """Where params take a cursor, and the result has the next one and a single list."""
    params, result = (revision.types[name] if name is not None else None for name in (row.params, row.result))
    if not isinstance(params, ir.Object) or not isinstance(result, ir.Object):
        return None
    lists = [field for field in result.fields if field.required and isinstance(field.type, ir.Array)]
    if params.field("cursor") is None or result.field("nextCursor") is None or len(lists) != 1:
        return None
    (items,) = lists
    assert isinstance(items.type, ir.Array)
    nouns = items.name.replace("_", " ")
    doc = docstring(f"Iterate over all {nouns}, with a `{row.method}` request for each page.", "        ")
    list_doc = docstring(f"Return all {nouns}, of all pages, as a list.", "        ")
    parameters = tuple(_parameter(field, ()) for field in _fields(row, revision) if field.wire != "cursor")
    # Not named after the items: two methods may list the same kind of them.
    name = f"iter_{row.name.split('_', 1)[-1]}"
    return PagingVariant(name, items.name, _annotation(items.type.items), parameters, doc, list_doc)


def _interim(interim: ir.InterimResult) -> str:
    value = "" if interim.value is None else f", {literal(interim.value)}"
    return f"InterimResult(t.{interim.type}, {literal(interim.property)}{value})"


def _requirement(gate: ir.CapabilityRequirement) -> str:
    parts = [f"t.{gate.type}", literal(gate.capability)]
    parts += [literal(gate.property)] if gate.property else []
    parts += (
        [f"({', '.join(literal(value) for value in gate.values)}{',' * (len(gate.values) == 1)})"]
        if gate.values
        else []
    )
    parts += [f"{flag}=True" for flag in ("implied_by_empty", "sender_only") if getattr(gate, flag)]
    return f"CapabilityRequirement({', '.join(parts)})"


def _parameter(field: ir.Field, positional: Collection[str]) -> Parameter:
    hint = _annotation(field.type)
    name = parameter_name(field.name)
    return Parameter(name, literal(field.wire), _JSON.get(hint, hint), field.required, field.wire in positional)


def _annotation(written: ir.Type) -> str:
    """Return a type as an annotation in a module that has the types as `t`."""
    return annotation(written, "t.", "int | float")


def _is_union(name: str, revision: ir.Revision) -> bool:
    alias = revision.types[name]
    return isinstance(alias, ir.Alias) and isinstance(alias.type, ir.Union)
