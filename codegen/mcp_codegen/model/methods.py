"""Types of a revision and the overlay go in, its method table comes out; nothing in here knows a method by name.

The rules, in the order they are applied to each member of a role union (ClientRequest, ServerNotification, …):

* The method is the constant of its `method` property; the direction is that of the union.
* The result of `XRequest` is that of `XResultResponse` where the schema has one, else `XResult`, else `EmptyResult`.
* A further type in the response, or one that the overlay adds for what the params refer to, is an interim result;
  the first tells itself apart by a property whose known values have its name, the second was asked for.
* The capability is the path in the declaring side's capabilities that the method's own segments spell.
* What its params need besides (a gate) is what the overlay says, where the revision has such a capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from ..errors import RuleError, combine
from .capabilities import (
    CAPABILITIES,
    CapabilityRequirements,
    declared_path,
    has_capability,
)
from .ir import (
    Alias,
    Field,
    InterimResult,
    Method,
    Object,
    Plain,
    Ref,
    Scalar,
    Type,
    Union,
    Values,
)
from .names import snake
from .overlay import Overlay, OverlayRows
from .types import Named

Kind = Literal["request", "notification", "input_request"]
Direction = Literal["client_to_server", "server_to_client"]
# The unions of the schema that say who sends what.
ROLES: Final[Mapping[str, tuple[Kind, Direction]]] = {
    "ClientRequest": ("request", "client_to_server"),
    "ServerRequest": ("request", "server_to_client"),
    "InputRequest": ("input_request", "server_to_client"),
    "ClientNotification": ("notification", "client_to_server"),
    "ServerNotification": ("notification", "server_to_client"),
}
_METADATA: Final = "_meta"
_SUFFIXES: Final = {"request": "Request", "input_request": "Request", "notification": "Notification"}


def derive_methods(types: Named, revision: str, overlay: Overlay) -> tuple[Method, ...]:
    """The rows, in the order of the role unions. Raises RuleError where something does not follow."""
    return MethodRules(types, revision, overlay).methods()


class MethodRules:
    """The derivation for one revision."""

    def __init__(self, types: Named, revision: str, overlay: Overlay) -> None:
        self._types = types
        self._revision = revision
        self._capability_rows = overlay.table("capability", revision)
        self._interim_rows: OverlayRows = overlay.table("interim", revision)
        self._requirements = CapabilityRequirements(types, revision, overlay)

    def methods(self) -> tuple[Method, ...]:
        rows: list[Method] = []
        faults: list[RuleError] = []
        covered: set[str] = set()
        for role, (kind, direction) in ROLES.items():
            for name in self._arms(role):
                covered.add(name)
                try:
                    rows.append(self._row(self._object(name), kind, direction))
                except RuleError as fault:
                    faults.append(fault)
        if not covered:
            raise RuleError(
                f"{self._revision}: none of {', '.join(ROLES)} is defined, so no direction follows",
                rule="direction",
                tried=list(ROLES),
            )
        faults += self._without_direction(covered)
        faults += [fault for row in rows for fault in self._without_metadata(row)]
        if faults:
            raise combine(faults)
        return tuple(rows)

    def _without_metadata(self, row: Method) -> list[RuleError]:
        """Where all requests have to carry metadata, a request whose params have no place for it."""
        common = self._types.get("RequestParams")
        needed = common.field(_METADATA) if isinstance(common, Object) else None
        params = self._types.get(row.params or "")
        asked = row.kind == "request" and row.direction == "client_to_server"
        if not asked or needed is None or not needed.required or not (params is None or isinstance(params, Object)):
            return []
        if params is not None and params.field(_METADATA) is not None:
            return []
        what = (
            f"{self._revision}: RequestParams requires {_METADATA} of every request, the params of {row.type} have none"
        )
        return [RuleError(what, rule="message", at=row.type, tried=[f"{row.params}.{_METADATA}"] if row.params else [])]

    def _without_direction(self, covered: set[str]) -> list[RuleError]:
        """The messages that no role union has."""
        faults: list[RuleError] = []
        for each in self._types.values():
            field = each.field("method") if isinstance(each, Object) else None
            if field is not None and field.constant is not None and each.name not in covered:
                what = (
                    f"{self._revision}: {each.name} has the method {field.constant!r} but is in none of "
                    f"{', '.join(ROLES)}, so its direction does not follow"
                )
                faults.append(RuleError(what, rule="direction", at=each.name, tried=list(ROLES)))
        return faults

    def _arms(self, role: str) -> list[str]:
        """The names a union consists of; an alias of one type is a union of one."""
        union = self._types.get(role)
        if union is None:
            return []
        if isinstance(union, Object):
            return [role]
        arms = union.type.arms if isinstance(union.type, Union) else (union.type,)
        return [name for arm in arms if isinstance(arm, Ref) for name in self._unfold(arm.name)]

    def _unfold(self, name: str) -> list[str]:
        each = self._types[name]
        return self._arms(name) if isinstance(each, Alias) and isinstance(each.type, (Ref, Union)) else [name]

    def _object(self, name: str) -> Object:
        each = self._types[name]
        if not isinstance(each, Object):
            raise RuleError(
                f"{self._revision}: {name} is in a union of messages but is not an object type", rule="message", at=name
            )
        return each

    def _row(self, message: Object, kind: Kind, direction: Direction) -> Method:
        constant = message.field("method")
        method = constant.constant if constant is not None else None
        if not isinstance(method, str):
            raise RuleError(
                f"{self._revision}: {message.name} has no constant method, so it has no row",
                rule="message",
                at=message.name,
            )
        stem = message.name.removesuffix(_SUFFIXES[kind])
        params = message.field("params")
        if params is not None and not isinstance(params.type, Ref):
            raise RuleError(
                f"{self._revision}: the params of {message.name} are not an object type",
                rule="message",
                at=message.name,
            )
        params_type = params.type.name if params is not None and isinstance(params.type, Ref) else None
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
            interim=interim,
            capability=self._capability(method, kind, direction),
            requirements=self._requirements.of(params_type),
            doc=message.doc,
            deprecated=message.deprecated,
        )

    def _results(self, stem: str, params: str | None) -> tuple[str, tuple[InterimResult, ...]]:
        """The result of a request, and what may answer it before that."""
        response = self._types.get(f"{stem}ResultResponse")
        named = f"{stem}Result" if f"{stem}Result" in self._types else "EmptyResult"
        result = response.field("result") if isinstance(response, Object) else None
        found = [named]
        if result is not None:
            arms = result.type.arms if isinstance(result.type, Union) else (result.type,)
            found = [arm.name for arm in arms if isinstance(arm, Ref)]
            if len(found) == 1 and named == "EmptyResult":
                named = found[0]
        if named not in found or named not in self._types:
            raise RuleError(
                f"{self._revision}: no result follows for {stem}Request: "
                f"neither {stem}ResultResponse, {stem}Result nor EmptyResult says one",
                rule="result",
                at=f"{stem}Request",
                tried=[f"{stem}ResultResponse", f"{stem}Result", "EmptyResult"],
            )
        told = [self._marked_interim(name) for name in found if name != named]
        return named, (*self._requested_interim(params), *told)

    def _marked_interim(self, name: str) -> InterimResult:
        """An interim result tells itself apart by a property that is known to take the type's own name as its value."""
        each, value = self._types[name], snake(name.removesuffix("Result"))
        fields = each.fields if isinstance(each, Object) else ()
        for field in fields:
            plain = self._types[field.type.name] if isinstance(field.type, Ref) else field
            if isinstance(plain, (Alias, Field)) and value in _known_values(plain.type):
                return InterimResult(name, field.wire, value)
        raise RuleError(
            f"{self._revision}: no property of {name} is known to be {value!r}, so nothing tells it apart",
            rule="interim",
            at=name,
            tried=[f"{name}.{field.wire}" for field in fields],
        )

    def _requested_interim(self, params: str | None) -> list[InterimResult]:
        """The interim results of the overlay, where the params have the property that asks for them."""
        references = self._references(params) if params is not None else {}
        found: list[InterimResult] = []
        for place, row in self._interim_rows.rows.items():
            if place in references:
                if row.use not in self._types:
                    raise RuleError(
                        f"{self._revision}: {row} adds {row.use!r}, which is not defined",
                        rule="interim",
                        at=str(row.use),
                    )
                found.append(InterimResult(self._interim_rows.use(place), references[place]))
        return found

    def _references(self, name: str) -> dict[str, str]:
        """The types that a params type, or every one of its arms, refers to, with the property that does."""
        each = self._types[name]
        if isinstance(each, Object):
            return {field.type.name: field.wire for field in each.fields if isinstance(field.type, Ref)}
        arms = each.type.arms if isinstance(each.type, Union) else ()
        found = [self._references(arm.name) for arm in arms if isinstance(arm, Ref)]
        return {key: found[0][key] for key in found[0] if all(key in arm for arm in found)} if found else {}

    def _capability(self, method: str, kind: Kind, direction: Direction) -> str:
        """What has to be declared before this message: by the receiver of a request, by the sender of a notification."""
        sender, receiver = ("client", "server") if direction == "client_to_server" else ("server", "client")
        side = sender if kind == "notification" else receiver
        segments = [segment for segment in method.split("/") if segment != "notifications"]
        derived = ".".join(declared_path(self._types, side, segments))
        if method not in self._capability_rows and not derived:
            raise RuleError(
                f"{self._revision}: no capability follows for {method!r}: {CAPABILITIES[side]} has no property "
                f"{segments[0]!r}; add a row to [[capability]] in overlay.toml that says which one it needs, or none",
                rule="capability",
                at=method,
                tried=[f"{side}.{segments[0]}", "a row of [[capability]] in overlay.toml"],
            )
        chosen = self._capability_rows.choose(method, derived)
        if chosen and not has_capability(self._types, chosen):
            what = f"{self._revision}: {method!r} would need {chosen!r}, which no capabilities type has"
            raise RuleError(what, rule="capability", at=method, tried=[chosen])
        return chosen


def _known_values(written: Type) -> tuple[Scalar, ...]:
    """The values that a type gives a meaning: all there are, or those of a string that may have others too."""
    if isinstance(written, Values):
        return written.values
    return written.known if isinstance(written, Plain) else ()
