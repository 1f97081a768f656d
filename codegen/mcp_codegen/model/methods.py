"""The method table of a revision, derived from its types and the overlay. No method name is built in.

The rules, in the order they are applied to each member of a role union (ClientRequest, ServerNotification, …):

* The method is the constant of its `method` property; the direction is that of the union.
* The result of `XRequest` is that of `XResultResponse` if the schema has one, else `XResult`, else `EmptyResult`.
* Any other type in the response is an interim result, identified by a property whose known values contain its name.
  A type that the overlay adds for a type the params refer to is an interim result that the sender requests.
* The capability is the path in the declaring side's capabilities that the segments of the method spell.
* Further capabilities that params require are those of the overlay, if the revision has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import RuleError, combine, is_object
from ..importer.syntax import MESSAGE_TAGS
from .ir import Alias, Field, InterimResult, Map, Method, Object, Plain, Ref, Scalar, Type, Union, Values
from .lifecycle import CAPABILITIES, CapabilityRequirements, declared_path, has_capability
from .names import snake
from .overlay import DIRECTIONS, Overlay, OverlayRow, OverlayRows
from .types import NamedTypes, merged_union

_NO_CAPABILITY: Final = "none"
NO_TAGS: Final[Mapping[str, MessageTags]] = {}

MethodKind = Literal["request", "notification", "input_request"]
Direction = Literal["client_to_server", "server_to_client"]
# The unions of the schema that define which side sends which messages.
ROLES: Final[Mapping[str, tuple[MethodKind, Direction]]] = {
    "ClientRequest": ("request", "client_to_server"),
    "ServerRequest": ("request", "server_to_client"),
    "InputRequest": ("input_request", "server_to_client"),
    "ClientNotification": ("notification", "client_to_server"),
    "ServerNotification": ("notification", "server_to_client"),
}
_REMEDIES: Final = ("@direction", "a row of [[direction]] in overlay.toml")
_METADATA: Final = "_meta"
_SUFFIXES: Final = {"request": "Request", "input_request": "Request", "notification": "Notification"}

# What the rules of the method table read from types and of rows.


def are_carried(rows: list[Method]) -> bool:
    """Whether a request of the client has an interim result for the input requests, if there are any."""
    requests = [row for row in rows if row.direction == "client_to_server" and row.kind == "request"]
    has_carrier = any(interim.value is not None for row in requests for interim in row.interim)
    return has_carrier or all(row.kind != "input_request" for row in rows)


def named_type(written: Type) -> Ref | None:
    """Return the reference that a type is, or the only one in a union with objects of any shape."""
    arms = written.arms if isinstance(written, Union) else (written,)
    names = [arm for arm in arms if isinstance(arm, Ref)]
    return names[0] if len(names) == 1 and all(isinstance(arm, (Ref, Map)) for arm in arms) else None


def constants_of(written: Type) -> tuple[Scalar, ...]:
    """Return the values that the specification defines for a type: its only values, or the known ones of a string."""
    if isinstance(written, Values):
        return written.values
    return written.open_values if isinstance(written, Plain) else ()


# Tags of messages in schema.ts that say what else a row of the overlay says, or what nothing does.
#
# `@direction client_to_server` or `server_to_client`: the side that sends a message, for one that is in no union.
# `@capability server.tools` or `none`: the capability that it needs. `@result FetchedPage`: the result of a request.


@dataclass(frozen=True, slots=True)
class MessageTags:
    """The tags of one message; empty for a tag that it does not have."""

    direction: str = ""
    capability: str | None = None
    result: str = ""


def read_message_tags(schema: Mapping[str, Any], types: NamedTypes, revision: str) -> dict[str, MessageTags]:
    """Return the tags of the messages of a normalized schema, by type. Raises RuleError for a wrong value."""
    tags: dict[str, MessageTags] = {}
    for name, definition in schema.get("$defs", {}).items():
        written = {tag: definition.get(f"x-{tag}") for tag in MESSAGE_TAGS} if is_object(definition) else {}
        if any(value is not None for value in written.values()):
            tags[name] = _tags(name, written, types, revision)
    return tags


def sent_without_union(
    tags: Mapping[str, MessageTags], rows: OverlayRows, direction: str, ending: str, in_unions: set[str]
) -> list[str]:
    """Return the messages that are in no union, and that one side sends by their tag, or else by a row of the overlay.

    Args:
        tags: The tags of messages, by type.
        rows: The rows of the table `direction`.
        direction: The direction of the messages.
        ending: The end of their names, which tells requests from notifications.
        in_unions: The messages that are in a union.
    """
    names = [name for name, of in tags.items() if of.direction == direction and name.endswith(ending)]
    listed = [name for name, row in rows.rows.items() if row.use == direction and name.endswith(ending)]
    free = [name for name in listed if name not in in_unions and not (name in tags and tags[name].direction)]
    for name in free:
        rows.use(name)
    return [*(name for name in names if name not in in_unions), *free]


def check_direction(tags: Mapping[str, MessageTags], name: str, direction: str, revision: str) -> None:
    """Raise RuleError if the tag of a message has another direction than its union."""
    tagged = tags[name].direction if name in tags else ""
    if tagged not in ("", direction):
        text = f"{revision}: {name} has @direction {tagged}, but it is in a union of messages {direction}; correct one"
        raise RuleError(text, rule="direction", at=name)


def _tags(name: str, written: Mapping[str, Any], types: NamedTypes, revision: str) -> MessageTags:
    direction, capability, result = (None if written[tag] is None else str(written[tag]) for tag in MESSAGE_TAGS)
    if direction is not None and direction not in DIRECTIONS:
        raise _error(revision, name, "direction", direction, f"write {' or '.join(DIRECTIONS)}")
    if result is not None and result not in types:
        raise _error(revision, name, "result", result, "name a type of the schema")
    if capability is not None and not capability:
        raise _error(revision, name, "capability", capability, f"name one, side first, or write {_NO_CAPABILITY}")
    return MessageTags(direction or "", "" if capability == _NO_CAPABILITY else capability, result or "")


def _error(revision: str, name: str, tag: str, value: str, remedy: str) -> RuleError:
    return RuleError(f"{revision}: {name} has @{tag} {value:.100}, which it cannot have; {remedy}", rule=tag, at=name)


def derive_methods(
    types: NamedTypes, revision: str, overlay: Overlay, tags: Mapping[str, MessageTags] = NO_TAGS
) -> tuple[Method, ...]:
    """Return the rows, in the order of the role unions. Raises RuleError if something cannot be derived."""
    return MethodRules(types, revision, overlay, tags).methods()


class MethodRules:
    """The derivation for one revision."""

    def __init__(self, types: NamedTypes, revision: str, overlay: Overlay, tags: Mapping[str, MessageTags]) -> None:
        self._types = types
        self._tags = tags
        self._revision = revision
        self._capability_rows = overlay.table("capability", revision, self._fits)
        self._unfit = {row.place: row for row in overlay.table("capability", revision).rows.values()}
        self._direction_rows = overlay.table("direction", revision, lambda row: row.place in types)
        self._interim_rows: OverlayRows = overlay.table("interim", revision)
        self._requirements = CapabilityRequirements(types, revision, overlay)

    def methods(self) -> tuple[Method, ...]:
        rows: list[Method] = []
        errors: list[RuleError] = []
        covered: set[str] = set()
        for role, (kind, direction) in ROLES.items():
            for name in self._senders(role):
                covered.add(name)
                try:
                    rows.append(self._row(self._object(name), kind, direction))
                except RuleError as error:
                    errors.append(error)
        if not covered:
            raise RuleError(
                (
                    f"{self._revision}: none of {', '.join(ROLES)} is defined, so no direction can be derived; "
                    "define at least one of these unions"
                ),
                rule="direction",
                tried=list(ROLES),
            )
        errors += self._without_direction(covered)
        errors += self._with_the_same_method(rows)
        errors += [error for row in rows for error in self._without_metadata(row)]
        if not errors and not are_carried(rows):
            text = "there are input requests, but no request has an interim result that could carry them"
            remedy = "add one to the union of results of a request"
            raise RuleError(f"{self._revision}: {text}; {remedy}", rule="interim", at="InputRequest")
        if errors:
            raise combine(errors)
        return tuple(rows)

    def _with_the_same_method(self, rows: Sequence[Method]) -> list[RuleError]:
        """Return an error for each message that has the method of another one of its direction."""
        first: dict[tuple[str, str], str] = {}
        errors: list[RuleError] = []
        for row in rows:
            name = first.setdefault((row.direction, row.method), row.type)
            if name != row.type:
                text = f"{self._revision}: {name} and {row.type} have the same method {row.method!r}; give each its own"
                errors.append(RuleError(text, rule="message", at=row.type))
        return errors

    def _without_metadata(self, row: Method) -> list[RuleError]:
        """Return an error for a request without a place for `_meta`, if the revision requires it or parts of it in all
        requests."""
        common = self._types.get("RequestParams")
        metadata = common.field(_METADATA) if isinstance(common, Object) else None
        params = self._types.get(row.params or "")
        is_client_request = row.kind == "request" and row.direction == "client_to_server"
        if (
            not is_client_request
            or metadata is None
            or not (metadata.required or self._has_required(metadata.type))
            or not (params is None or isinstance(params, Object))
        ):
            return []
        if params is not None and params.field(_METADATA) is not None:
            return []
        text = (
            f"{self._revision}: RequestParams requires {_METADATA} in every request, but the params of "
            f"{row.type} have none; let them extend RequestParams"
        )
        return [RuleError(text, rule="message", at=row.type, tried=[f"{row.params}.{_METADATA}"] if row.params else [])]

    def _has_required(self, written: Type) -> bool:
        defined = self._types.get(written.name) if isinstance(written, Ref) else None
        return isinstance(defined, Object) and any(field.required for field in defined.fields)

    def _without_direction(self, covered: set[str]) -> list[RuleError]:
        """Return an error for each message that is in no role union."""
        errors: list[RuleError] = []
        for type in self._types.values():
            field = type.field("method") if isinstance(type, Object) else None
            if field is not None and field.constant is not None and type.name not in covered:
                text = (
                    f"{self._revision}: {type.name} has the method {field.constant!r} but is in none of "
                    f"{', '.join(ROLES)}, so its direction cannot be derived; add it to one of them, or give it "
                    "@direction or a row of [[direction]] in overlay.toml"
                )
                errors.append(RuleError(text, rule="direction", at=type.name, tried=[*ROLES, *_REMEDIES]))
        return errors

    def _senders(self, role: str) -> list[str]:
        """Return the messages of a role. A message that the server sends as a request, and in an interim result, is
        sent in the interim result if the revision has one with input requests."""
        names = [*self._arms(role), *self._tagged(role)]
        if role not in ("ServerRequest", "InputRequest"):
            return names
        both = set(self._arms("ServerRequest")) & set(self._arms("InputRequest"))
        has_interim = any(
            isinstance(type, Object) and type.field("inputRequests") is not None for type in self._types.values()
        )
        return [name for name in names if name not in both or has_interim == (role == "InputRequest")]

    def _tagged(self, role: str) -> list[str]:
        """Return the messages of this role that are in no union: by their tag, or by a row of the overlay."""
        kind, direction = ROLES[role]
        if kind == "input_request":
            return []
        in_unions = {name for other in ROLES for name in self._arms(other)}
        return sent_without_union(self._tags, self._direction_rows, direction, _SUFFIXES[kind], in_unions)

    def _arms(self, role: str) -> list[str]:
        """Return the names in a union; an alias of one type is a union of one."""
        union = self._types.get(role)
        if union is None:
            return []
        if isinstance(union, Object):
            return [role]
        arms = union.type.arms if isinstance(union.type, Union) else (union.type,)
        return [name for arm in arms if isinstance(arm, Ref) for name in self._unfold(arm.name)]

    def _unfold(self, name: str) -> list[str]:
        type = self._types[name]
        return self._arms(name) if isinstance(type, Alias) and isinstance(type.type, (Ref, Union)) else [name]

    def _object(self, name: str) -> Object:
        type = self._types[name]
        if not isinstance(type, Object):
            raise RuleError(
                (
                    f"{self._revision}: {name} is in a union of messages but is not an object type; make it an "
                    "object or remove it"
                ),
                rule="message",
                at=name,
            )
        return type

    def _row(self, message: Object, kind: MethodKind, direction: Direction) -> Method:
        check_direction(self._tags, message.name, direction, self._revision)
        constant = message.field("method")
        method = constant.constant if constant is not None else None
        if not isinstance(method, str):
            raise RuleError(
                (
                    f"{self._revision}: {message.name} has no constant `method` property, so it has no row in the "
                    "method table; give it one"
                ),
                rule="message",
                at=message.name,
            )
        stem = message.name.removesuffix(_SUFFIXES[kind])
        params = message.field("params")
        params_ref = None if params is None else self._common(params.type, kind) or named_type(params.type)
        if params is not None and params_ref is None:
            raise RuleError(
                f"{self._revision}: the params of {message.name} are not an object type; make them one",
                rule="message",
                at=message.name,
            )
        params_type = None if params_ref is None else params_ref.name
        result, interim = (None, ()) if kind == "notification" else self._results(stem, params_type)
        return Method(
            kind=kind,
            direction=direction,
            method=method,
            name=snake(stem),
            type=message.name,
            params=params_type,
            params_required=params is not None and params.required,
            result=result,
            interim=() if kind == "input_request" else interim,  # Its result stands in the params of the next request.
            capability=self._capability(method, kind, direction, self._tags.get(message.name)),
            requirements=self._requirements.of(params_type),
            doc=message.doc,
            deprecated=message.deprecated,
        )

    def _common(self, written: Type, kind: MethodKind) -> Ref | None:
        """Return the params that all messages of a kind have in common, for params of any shape."""
        name = "NotificationParams" if kind == "notification" else "RequestParams"
        is_any = written in (Plain("any"), Map(Plain("any")))
        return Ref(name) if is_any and isinstance(self._types.get(name), Object) else None

    def _results(self, stem: str, params: str | None) -> tuple[str, tuple[InterimResult, ...]]:
        """Return the result of a request, and its interim results."""
        response = self._types.get(f"{stem}ResultResponse")
        tagged = self._tags[f"{stem}Request"].result if f"{stem}Request" in self._tags else ""
        result_name = tagged or (f"{stem}Result" if f"{stem}Result" in self._types else "EmptyResult")
        result = response.field("result") if isinstance(response, Object) else None
        names = [result_name]
        if result is not None:
            arms = result.type.arms if isinstance(result.type, Union) else (result.type,)
            names = [arm.name for arm in arms if isinstance(arm, Ref)]
            if len(names) == 1 and result_name == "EmptyResult":
                result_name = names[0]
        if result_name not in names or result_name not in self._types:
            raise RuleError(
                f"{self._revision}: no result can be derived for {stem}Request: "
                f"{stem}ResultResponse, {stem}Result and EmptyResult give none; define one of them",
                rule="result",
                at=f"{stem}Request",
                tried=[f"{stem}ResultResponse", f"{stem}Result", "EmptyResult"],
            )
        defined = self._types[result_name]
        if isinstance(defined, Alias) and (merged := merged_union(defined, self._types)) is not None:
            defined = self._types[result_name] = merged
        if isinstance(defined, Alias) and not isinstance(defined.type, Ref):
            raise RuleError(
                f"{self._revision}: the result of {stem}Request is {result_name}, which is not an object type; make it "
                "one, with the properties that only some results have as optional ones",
                rule="result",
                at=result_name,
                tried=[result_name],
            )
        interim = [self._marked_interim(name) for name in names if name != result_name]
        return result_name, (*self._requested_interim(params), *interim)

    def _marked_interim(self, name: str) -> InterimResult:
        """Return the interim result that has a property whose known values contain the type's own name."""
        type, value = self._types[name], snake(name.removesuffix("Result"))
        fields = type.fields if isinstance(type, Object) else ()
        for field in fields:
            holder = self._types[field.type.name] if isinstance(field.type, Ref) else field
            if isinstance(holder, (Alias, Field)) and value in constants_of(holder.type):
                return InterimResult(name, field.wire, value)
        raise RuleError(
            (
                f"{self._revision}: no property of {name} has the known value {value!r}, so it cannot be distinguished "
                "from the result; add one"
            ),
            rule="interim",
            at=name,
            tried=[f"{name}.{field.wire}" for field in fields],
        )

    def _requested_interim(self, params: str | None) -> list[InterimResult]:
        """Return the interim results of the overlay whose requesting property is in the params."""
        references = self._references(params) if params is not None else {}
        interim: list[InterimResult] = []
        for place, row in list(self._interim_rows.rows.items()):
            if place in references and row.use not in self._types:
                self._interim_rows.leave_out(place, f"it adds {row.use!r}, which is not defined")
            elif place in references:
                interim.append(InterimResult(self._interim_rows.use(place), references[place]))
        return interim

    def _references(self, name: str) -> dict[str, str]:
        """Return the types that a params type, or each of its arms, refers to, with the referring property."""
        type = self._types[name]
        if isinstance(type, Object):
            return {field.type.name: field.wire for field in type.fields if isinstance(field.type, Ref)}
        arms = type.type.arms if isinstance(type.type, Union) else ()
        references = [self._references(arm.name) for arm in arms if isinstance(arm, Ref)]
        return (
            {key: references[0][key] for key in references[0] if all(key in arm for arm in references)}
            if references
            else {}
        )

    def _fits(self, row: OverlayRow) -> bool:
        """Return True for a row whose capability this revision has; if not, record it."""
        if not row.use or row.only or has_capability(self._types, row.use):
            return True
        row.unfit[self._revision] = f"{row.place!r} needs {row.use!r}, which no capabilities type has"
        return False

    def _capability(self, method: str, kind: MethodKind, direction: Direction, tags: MessageTags | None) -> str:
        """Return the capability that must be declared before this message: by the receiver of a request, by the
        sender of a notification."""
        if tags is not None and tags.capability is not None:
            return self._existing(tags.capability, method, "correct its tag @capability")
        sender, receiver = ("client", "server") if direction == "client_to_server" else ("server", "client")
        side = sender if kind == "notification" else receiver
        segments = [segment for segment in method.split("/") if segment != "notifications"]
        derived = ".".join(declared_path(self._types, side, segments))
        if not derived and kind == "notification" and method not in self._unfit:
            derived = ".".join(
                declared_path(self._types, receiver, segments)
            )  # It is about a feature of the other side.
        tried = [f"{side}.{segment}" for segment in segments[:1]]
        if method not in self._capability_rows and method in self._unfit and not derived:
            row = self._unfit[method]
            raise RuleError(
                f"{self._revision}: {method!r} needs {row.use!r}, which no capabilities type has; that is the value of "
                f"{row}: add a row with only = [{self._revision!r}] and the capability it needs here, or an empty one",
                rule="capability",
                at=method,
                tried=[*tried, str(row.use)],
            )
        if method not in self._capability_rows and not derived:
            raise RuleError(
                f"{self._revision}: no capability can be derived for {method!r}: {CAPABILITIES[side]} has no property "
                f"{''.join(segments[:1])!r}; add a row to [[capability]] in overlay.toml with the one it needs, or an "
                "empty one",
                rule="capability",
                at=method,
                tried=[*tried, "a row of [[capability]] in overlay.toml"],
            )
        chosen = self._capability_rows.choose(method, derived)
        return self._existing(chosen, method, "correct its [[capability]] row")

    def _existing(self, capability: str, method: str, remedy: str) -> str:
        """Return a capability that the revision has, or an empty one. Raises RuleError for another one."""
        if capability and not has_capability(self._types, capability):
            text = f"{self._revision}: {method!r} needs {capability!r}, which no capabilities type has; {remedy}"
            raise RuleError(text, rule="capability", at=method, tried=[capability])
        return capability
