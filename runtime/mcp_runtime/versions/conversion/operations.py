"""The operations of generated conversion steps: each plan becomes a function that converts a JSON value.

Functions never change a value in place; they return the same object if nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...errors import ConversionError
from ...protocol.models import is_list, is_object
from .predicates import Fits, predicate_for
from .report import ConversionReport, Path, format_path, record_loss

REMOVED: Final = object()
"""The result of a conversion that removes a property or an item."""


class ConversionContext:
    """The context of one conversion: the provided values, and the report of losses, None if nobody reads it."""

    __slots__ = ("provided", "report")

    def __init__(self, provided: Mapping[str, Any], report: ConversionReport | None) -> None:
        self.provided = provided
        self.report = report


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

    def touched(self, plan: Any) -> frozenset[str] | None:
        """Return the properties of an object that a plan reads or writes; None if the plan is not that of a type."""
        operation, *arguments = plan
        if operation != "type":
            return None
        parts: Mapping[str, Mapping[str, Any]] = self.step["types"][arguments[0]]
        sources = {value for kind, value in parts.get("add", {}).values() if kind == "copy"}
        return frozenset(sources).union(*parts.values())

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

    def fits(self, shape: Any) -> Fits:
        """Return the predicate of a shape."""
        return predicate_for(shape, self.step["records"])

    def _object(self, plan: Mapping[str, Mapping[str, Any]]) -> Change:
        misfits = [(wire, self.fits(shape), rule) for wire, (shape, rule) in plan.get("drop_misfits", {}).items()]
        defaults = [(wire, self._default_for(kind, value)) for wire, (kind, value) in plan.get("add", {}).items()]
        required = list(plan.get("require", {}).items())
        compiled = [(wire, self.change(inner)) for wire, inner in plan.get("fields", {}).items()]
        fields = [(wire, convert) for wire, convert in compiled if convert is not None]
        # Most objects need no conversion, which their keys show without visiting the values.
        always = bool(defaults or required)
        touched = frozenset(wire for wire, *_ in (*misfits, *fields))

        def change(value: Any, path: Path, context: ConversionContext) -> Any:
            if not is_object(value) or (not always and touched.isdisjoint(value)):
                return value
            before = result = value  # Copied before the first change.
            for wire, fits, rule in misfits:
                if wire in before and not fits(before[wire]):
                    result = dict(before) if result is before else result
                    self.drop_with_report(rule, (path, wire), context, result.pop(wire))
            for wire, default in defaults:
                if wire not in result:
                    result = dict(before) if result is before else result
                    result[wire] = default(before, context)
            for wire, rule in required:
                if wire not in result:
                    raise self.refuse(rule, path)
            for wire, convert in fields:
                if wire in result and (after := convert(value := result[wire], (path, wire), context)) is not value:
                    result = dict(before) if result is before else result
                    result[wire] = after
                    if after is REMOVED:
                        del result[wire]
            return result

        return change

    def _default_for(self, kind: str, default: Any) -> Callable[[dict[str, Any], ConversionContext], Any]:
        match kind:
            case "copy":
                return lambda value, context: value.get(default)
            case "provided" if default == "revision":
                return lambda value, context: self.step["target"]
            case "provided":
                return lambda value, context: context.provided.get(default, {})
            case _ if is_object(default):
                return lambda value, context: dict(default)
            case _:
                return lambda value, context: default


# ---- the operations; `mcp_codegen.conversion.steps` describes them -------------------------------------------------


def _items(plans: Operations, inner: Any) -> Change | None:
    convert = plans.change(inner)
    if convert is None:
        return None

    def change(value: Any, path: Path, context: ConversionContext) -> Any:
        if not is_list(value):
            return value
        result = value  # Copied before the first change.
        for number, item in enumerate(value):
            after = convert(item, (path, number), context)
            if after is not item and result is value:
                result = value[:number]
            if result is not value and after is not REMOVED:
                result.append(after)
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
            if is_list(items):
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
    "drop_if_empty": _drop_if_empty,
}
