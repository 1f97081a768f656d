"""The operations of generated conversion steps: each plan becomes a function that converts a JSON value.

Functions never change a value in place; they return the same object if nothing changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic_core import SchemaValidator

from mcp_runtime.errors import ConversionError
from mcp_runtime.protocol.models import is_list, is_object

# Predicates of shapes: check whether a JSON value matches a type, as generated conversion steps describe it.

Fits = Callable[[Any], bool]
Records = Mapping[str, Mapping[str, Any]]


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


_KINDS: Final[Mapping[str, Fits]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "any": lambda value: True,
}


def predicate_for(shape: Any, records: Records) -> Fits:
    """Return the predicate of a shape; `records` are the object types that shapes refer to by name."""
    if shape is None:
        return _KINDS["any"]
    if isinstance(shape, str):
        return _KINDS.get(shape) or _record(shape, records)
    kind, *rest = shape
    match kind:
        case "values":
            return lambda value: any(type(value) is type(allowed) and value == allowed for allowed in rest)
        case "list":
            return _list(records, *rest)
        case "map":
            if rest[0] is None:
                return is_object
            inner = predicate_for(rest[0], records)
            return lambda value: is_object(value) and all(map(inner, value.values()))
        case "one_of":
            arms = [predicate_for(arm, records) for arm in rest]
            return lambda value: any(arm(value) for arm in arms)
        case "range":
            return _within_bounds(*rest)
        case "text":
            return _text(*rest)
        case _:
            raise ValueError(f"unknown shape {kind!r}")


def _list(records: Records, shape: Any, least: int | None = None, most: int | None = None) -> Fits:
    item = None if shape is None else predicate_for(shape, records)

    def fits(value: Any) -> bool:
        if not is_list(value) or len(value) < (least or 0) or (most is not None and len(value) > most):
            return False
        return item is None or all(map(item, value))

    return is_list if item is None and least is None and most is None else fits


def _text(least: int | None, most: int | None, pattern: str | None) -> Fits:
    """Return the predicate of a text, with the regular expressions of models, which take no more than linear time."""
    bounds = {"min_length": least, "max_length": most, "pattern": pattern}
    schema: Any = {"type": "str", "strict": True} | {key: bound for key, bound in bounds.items() if bound is not None}
    return SchemaValidator(schema).isinstance_python


def _within_bounds(kind: str, minimum: int | None, maximum: int | None) -> Fits:
    def fits(value: Any) -> bool:
        return _KINDS[kind](value) and (minimum is None or value >= minimum) and (maximum is None or value <= maximum)

    return fits


def _record(name: str, records: Records) -> Fits:
    """Return the predicate of an object type. It is compiled on first use, because records may be recursive."""
    compiled: list[tuple[list[str], dict[str, Fits], frozenset[str] | None]] = []

    def fits(value: Any) -> bool:
        if not is_object(value):
            return False
        if not compiled:
            record = records[name]
            compiled.append(
                (
                    record["required"],
                    {key: predicate_for(predicate, records) for key, predicate in record["properties"].items()},
                    frozenset(record["closed"]) if "closed" in record else None,
                )
            )
        required, properties, closed = compiled[0]
        if closed is not None and not closed.issuperset(value):
            return False
        return all(key in value for key in required) and all(
            predicate(value[key]) for key, predicate in properties.items() if key in value
        )

    return fits


# The report of a conversion: the values that the other revision cannot represent.

Path = tuple[Any, Any] | None  # The path of the parent, and the key in it; None for the root.


class Loss(NamedTuple):
    """One lost value: its path, the conversion rule that dropped it, the reason of the rule, and the value."""

    path: str
    rule: str
    reason: str
    value: Any


@dataclass(slots=True)
class ConversionReport:
    """All losses of one or more conversions, in order."""

    losses: list[Loss] = field(default_factory=list[Loss])


def record_loss(report: ConversionReport | None, path: Path, rule: str, reason: str, value: Any) -> None:
    """Add a loss to the report, if there is one, and to the debug log."""
    if report is not None:
        report.losses.append(Loss(format_path(path), rule, reason, value))
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("lost in conversion: %s: %s: %s", format_path(path), rule, reason)


def format_path(path: Path) -> str:
    """Return a path as text, such as `content.0.annotations`; empty for the root."""
    steps: list[str] = []
    while path is not None:
        path, key = path
        steps.append(str(key))
    return ".".join(reversed(steps))


_log: Final = logging.getLogger("mcp_runtime.versions.conversion.operations")

REMOVED: Final = object()
"""The result of a conversion that removes a property or an item."""


class ConversionContext:
    """The context of one conversion: the provided values, and the report of losses, None if nobody reads it."""

    __slots__ = ("provided", "report", "spares_items")

    def __init__(
        self, provided: Mapping[str, Any], report: ConversionReport | None, spares_items: bool = False
    ) -> None:
        self.provided = provided
        self.report = report
        self.spares_items = spares_items  # An item of a list that is refused is left out, and the rest arrives.


Change = Callable[[Any, Path, ConversionContext], Any]


class Operations:
    """The compiled plans of one generated step; each plan is compiled on first use."""

    def __init__(self, step: Mapping[str, Any]) -> None:
        """Create the operations of a step, which is the table that the generator wrote."""
        self.step = step
        self._types: dict[str, Change] = {}

    def change(self, plan: Any) -> Change | None:
        """Compile a plan; None if it leaves every value unchanged."""
        if plan is None:
            return None
        operation, *arguments = plan
        return _OPERATIONS[operation](self, *arguments)

    def type(self, name: str) -> Change:
        """Return the conversion of objects of this type."""
        if name not in self._types:
            # A type may contain itself: until it is compiled, its name resolves to a lazy lookup.
            self._types[name] = lambda value, path, walk: self._types[name](value, path, walk)
            self._types[name] = self._object(self.step["types"][name])
        return self._types[name]

    def plan_of_type(self, name: str) -> Any:
        """Return the plan of a type that both revisions define; None if its values are the same in both."""
        other = self.renamed_type(name)
        key = name if other == name else f"{name} > {other}"
        return ("type", key) if key in self.step["types"] else None

    def renamed_type(self, name: str) -> str:
        """Return the name of a type in the target."""
        return str(self.step.get("renamed_types", {}).get(name, name))

    def renamed_method(self, direction: str, method: str) -> str:
        """Return the name of a method in the target."""
        return str(self.step.get("renamed_methods", {}).get(direction, {}).get(method, method))

    def touched(self, plan: Any) -> frozenset[str] | None:
        """Return the properties of an object that a plan reads or writes; None if the plan is not that of a type."""
        operation, *arguments = plan
        if operation != "type":
            return None
        parts: Mapping[str, Mapping[str, Any]] = self.step["types"][arguments[0]]
        if "closed" in parts:
            return None
        sources = {value for kind, value in parts.get("add", {}).values() if kind == "copy"}
        return frozenset(sources).union(parts.get("rename", {}).values(), *parts.values())

    def refuse(self, rule: str, path: Path) -> ConversionError:
        """Return the error of a rule that refuses the value at a path."""
        place = format_path(path)
        error = ConversionError(
            f"{self.step['source']} → {self.step['target']}: {place + ': ' if place else ''}"
            f"{rule}: {self.step['rules'][rule]}"
        )
        error.rule = rule
        return error

    def drop_with_report(self, rule: str, path: Path, context: ConversionContext, value: Any) -> None:
        """Report that a rule drops a value."""
        record_loss(context.report, path, rule, self.step["rules"][rule], value)

    def leave_out(self, error: ConversionError, path: Path, context: ConversionContext, item: Any) -> None:
        """Report that an item of a list is left out, because a rule refuses it."""
        _log.warning("an item of a list is left out: %s", error)
        record_loss(context.report, path, error.rule, self.step["rules"][error.rule], item)

    def fits(self, shape: Any) -> Fits:
        """Return the predicate of a shape."""
        return predicate_for(shape, self.step["records"])

    def _object(self, plan: Mapping[str, Mapping[str, Any]]) -> Change:
        misfits = [(wire, self.fits(shape), rule) for wire, (shape, rule) in plan.get("drop_misfits", {}).items()]
        defaults = [(wire, self._default_for(kind, value)) for wire, (kind, value) in plan.get("add", {}).items()]
        required = list(plan.get("require", {}).items())
        compiled = [(wire, self.change(inner)) for wire, inner in plan.get("fields", {}).items()]
        fields = [(wire, convert) for wire, convert in compiled if convert is not None]
        renamed = plan.get("rename", {})
        closed = [(rule, frozenset(wires)) for rule, wires in plan.get("closed", {}).items()]
        # Most objects need no conversion, which their keys show without visiting the values.
        always = bool(defaults or required or closed)
        touched = frozenset(wire for wire, *_ in (*misfits, *fields)).union(renamed)

        def change(value: Any, path: Path, context: ConversionContext) -> Any:
            if not is_object(value) or (not always and touched.isdisjoint(value)):
                return value
            before = result = value  # Copied before the first change.
            for wire, fits, rule in misfits:
                if wire in before and not fits(before[wire]):
                    result = dict(before) if result is before else result
                    self.drop_with_report(rule, (path, wire), context, result.pop(wire))
            for wire, convert in fields:
                if wire in result and (after := convert(value := result[wire], (path, wire), context)) is not value:
                    result = dict(before) if result is before else result
                    result[wire] = after
                    if after is REMOVED:
                        del result[wire]
            if renamed and not renamed.keys().isdisjoint(result):
                result = self._with_other_names(result, renamed, path, context)
            for wire, default in defaults:
                # Null is as absent.
                if result.get(wire) is None and (added := default(before, (path, wire), context)) is not REMOVED:
                    result = dict(before) if result is before else result
                    result[wire] = added
            for wire, rule in required:
                if result.get(wire) is None:
                    raise self.refuse(rule, path)
            for rule, names in closed:
                if not names.issuperset(result):
                    result = self._with_these_only(result, names, rule, path, context)
            return result

        return change

    def _with_other_names(
        self, value: dict[str, Any], names: Mapping[str, str], path: Path, context: ConversionContext
    ) -> dict[str, Any]:
        """Return an object with other names of properties, in the same order. What has such a name already is lost."""
        new = {name for wire, name in names.items() if wire in value}
        result: dict[str, Any] = {}
        for wire, item in value.items():
            if wire in names:
                result[names[wire]] = item
            elif wire in new:
                reason = f"{self.step['target']} has another property under this name, which the message has as well."
                record_loss(context.report, (path, wire), f"rename {wire}", reason, item)
            else:
                result[wire] = item
        return result

    def _with_these_only(
        self, value: dict[str, Any], names: frozenset[str], rule: str, path: Path, context: ConversionContext
    ) -> dict[str, Any]:
        """Return an object without properties of other names, which are lost."""
        for wire in value.keys() - names:
            self.drop_with_report(rule, (path, wire), context, value[wire])
        return {wire: item for wire, item in value.items() if wire in names}

    def _default_for(self, kind: str, default: Any) -> Callable[[dict[str, Any], Path, ConversionContext], Any]:
        match kind:
            case "copy":
                return lambda value, path, context: value.get(default, REMOVED)
            case "provided" if default == "revision":
                return lambda value, path, context: self.step["target"]
            case "provided":
                return lambda value, path, context: context.provided.get(default, {})
            case "make":
                make = self.change(default)
                return lambda value, path, context: {} if make is None else make({}, path, context)
            case _ if is_object(default):
                return lambda value, path, context: deepcopy(default)
            case _:
                return lambda value, path, context: default


# ---- the operations; `mcp_codegen.conversion.steps` describes them -------------------------------------------------


def _items(plans: Operations, inner: Any, least: int = 0, rule: str = "") -> Change | None:
    convert = plans.change(inner)
    if convert is None:
        return None

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        if not is_list(value):
            return value
        result = value  # Copied before the first change.
        for number, item in enumerate(value):
            try:
                after = convert(item, (path, number), context)
            except ConversionError as error:
                if not context.spares_items:
                    raise
                after = REMOVED
                plans.leave_out(error, (path, number), context, item)
            if after is not item and result is value:
                result = value[:number]
            if result is not value and after is not REMOVED:
                result.append(after)
        if result is not value and len(result) < least:
            raise plans.refuse(rule, path)
        return result

    return change


def _values(plans: Operations, inner: Any) -> Change:
    convert = plans.change(inner)

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        if convert is None or not is_object(value):
            return value
        result = {key: convert(item, (path, key), context) for key, item in value.items()}
        return {key: item for key, item in result.items() if item is not REMOVED}

    return change


def _tag(plans: Operations, wire: str, plans_by_value: Mapping[Any, Any]) -> Change:
    by_value = {value: plans.change(plan) for value, plan in plans_by_value.items()}

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        convert = by_value.get(value.get(wire)) if is_object(value) else None
        return value if convert is None else convert(value, path, context)

    return change


def _one_of(plans: Operations, alternatives: Any) -> Change:
    branches = [(plans.fits(shape), plans.change(plan)) for shape, plan in alternatives]

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        convert = next((convert for fits, convert in branches if fits(value)), None)
        return value if convert is None else convert(value, path, context)

    return change


def _match(plans: Operations, shape: Any, inner: Any, otherwise: Any) -> Change:
    fits, convert, convert_other = plans.fits(shape), plans.change(inner), plans.change(otherwise)

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        selected = convert if fits(value) else convert_other
        return value if selected is None else selected(value, path, context)

    return change


def _drop(plans: Operations, rule: str) -> Change:
    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        plans.drop_with_report(rule, path, context, value)
        return REMOVED

    return change


def _drop_default(plans: Operations, default: Any, rule: str, report: bool) -> Change:
    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        if report and value != default:
            plans.drop_with_report(rule, path, context, value)
        return REMOVED

    return change


def _constant(plans: Operations, other: Any) -> Change:
    return lambda value, path, context: other


def _refuse(plans: Operations, rule: str) -> Change:
    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        raise plans.refuse(rule, path)

    return change


def _truncate(plans: Operations, max_items: int, inner: Any, rule: str) -> Change:
    convert = plans.change(inner)

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        if is_list(value) and len(value) > max_items:
            plans.drop_with_report(rule, path, context, value[max_items:])
            value = value[:max_items]
        return value if convert is None else convert(value, path, context)

    return change


def _first(plans: Operations, inner: Any, rule: str) -> Change:
    convert = plans.change(inner)

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        if not value:
            raise plans.refuse(rule, path)
        if len(value) > 1:
            plans.drop_with_report(rule, path, context, value[1:])
        return value[0] if convert is None else convert(value[0], (path, 0), context)

    return change


def _flatten(plans: Operations, wire: str, inner: Any, rule: str) -> Change:
    convert = plans.change(inner)

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        result: list[Any] = []
        for number, item in enumerate(value):
            items = item.get(wire) if is_object(item) else None
            if items == []:  # Nothing repeats the object.
                plans.drop_with_report(rule, (path, number), context, item)
            elif is_list(items):
                plans.drop_with_report(rule, ((path, number), wire), context, items)
                result += [{**item, wire: single} for single in items]
            else:
                result.append(item)
        return result if convert is None else convert(result, path, context)

    return change


def _replace(plans: Operations, template: Any, inner: Any, rule: str) -> Change:
    convert = plans.change(inner)

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        plans.drop_with_report(rule, path, context, value)
        result = _fill_template(template, value)
        return result if convert is None else convert(result, path, context)

    return change


def _drop_if_empty(plans: Operations, inner: Any) -> Change:
    convert = plans.change(inner)

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        after = value if convert is None else convert(value, path, context)
        return REMOVED if after == {} else after

    return change


def _fill_template(template: Any, value: Mapping[str, Any]) -> Any:
    """Fill a template from a value.

    The text `=name` is replaced with the property, `=name[].key` with a list of one property of each item of a list,
    and `{name}` with the property inside a text. Properties that the value does not have are omitted.
    """
    if is_object(template):
        result = {key: _fill_template(item_template, value) for key, item_template in template.items()}
        return {key: item_template for key, item_template in result.items() if item_template is not REMOVED}
    if not isinstance(template, str):
        return template
    if not template.startswith("="):
        return template.format_map(value)
    wire, from_items, inner = template[1:].partition("[].")
    property_value = value.get(wire, REMOVED)
    return [item[inner] for item in property_value] if from_items and is_list(property_value) else property_value


_OPERATIONS: Final[Mapping[str, Callable[..., Change | None]]] = {
    "type": Operations.type,
    "items": _items,
    "values": _values,
    "tag": _tag,
    "one_of": _one_of,
    "match": _match,
    "drop": _drop,
    "drop_default": _drop_default,
    "refuse": _refuse,
    "truncate": _truncate,
    "first": _first,
    "flatten": _flatten,
    "replace": _replace,
    "constant": _constant,
    "drop_if_empty": _drop_if_empty,
}
