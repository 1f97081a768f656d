"""Conversion chains: convert messages between two revisions through the generated steps between neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, NamedTuple

from .operations import REMOVED, Change, ConversionContext, ConversionReport, Operations

_STANDALONE: Final = ConversionContext({}, None)
_STANDALONE_RESULT: Final = ConversionContext({}, None, spares_items=True)


class RemovedMethod(NamedTuple):
    """A method that the target revision does not define.

    `response` is `runtime` if the runtime of the source side handles the method itself, `refuse` if a request gets an
    error, `ignore` if a notification is dropped. `reason` names the conversion rule.
    """

    response: str
    reason: str


class Chain:
    """A converter of messages from one revision to another, through every revision between them."""

    def __init__(self, source: str, target: str, steps: Sequence[Operations]) -> None:
        """Create a chain of the steps from `source` to `target`. Use `chain_of`, which caches chains."""
        self.source = source
        self.target = target
        self._steps = steps
        self._cache: dict[tuple[str, ...], tuple[Change, ...]] = {}

    def params(
        self,
        direction: str,
        method: str,
        value: Any,
        report: ConversionReport | None = None,
        provided: Mapping[str, Any] | None = None,
    ) -> Any:
        """Convert the params of a message.

        Args:
            direction: The direction of the message in the source revision.
            method: The method of the message.
            value: The params as parsed JSON; they are not changed in place.
            report: Collects the losses.
            provided: Values of the session that messages of the source do not contain: `client_capabilities`.

        Raises ConversionError if a rule refuses the message.
        """
        key = (direction, method)
        changes = self._cache.get(key)
        if changes is None:
            changes = self._cache[key] = self._collect(direction, method, lambda plans, name: plans.get("params"))
        return apply_changes(value, changes, report, provided)

    def method(self, direction: str, method: str) -> str:
        """Return the name of a method in the target, which is another one if a revision renamed it."""
        for step in self._steps:
            method = step.renamed_method(direction, method)
        return method

    def result(
        self, direction: str, method: str, value: Any, report: ConversionReport | None = None, interim: str = ""
    ) -> Any:
        """Convert the result of a request that was sent in this direction. Raises ConversionError.

        `method` is its name in the source, and `interim` the name of the result type if the result is not the final
        one. An item of a list of a final result that a rule refuses is left out, and reported.
        """
        changes = self.result_changes(direction, method, interim)
        return apply_changes(value, changes, report, spares_items=not interim)

    def touched_params(self, direction: str, method: str) -> frozenset[str] | None:
        """Return the properties that the conversion of params reads or writes; None if the plans do not tell.

        Params without them are converted by adding properties, the same ones whatever the others are.
        """
        touched = set[str]()
        for step, plans, _ in self._plans_of(direction, method):
            plan = plans.get("params")
            properties = None if plan is None else step.touched(plan)
            if plan is not None and properties is None:
                return None
            touched |= properties or frozenset()
        return frozenset(touched)

    def result_changes(self, direction: str, method: str, interim: str = "") -> tuple[Change, ...]:
        """Return what `apply_changes` does with the results of a method; empty if they need no conversion."""
        key = (direction, method, interim)
        changes = self._cache.get(key)
        if changes is None:
            changes = self._cache[key] = self._collect(
                direction, method, lambda plans, name: plans.get("results", {}).get(name), interim
            )
        return changes

    def convert_type(self, name: str, value: Any, report: ConversionReport | None = None) -> Any:
        """Convert a value of a type that both revisions define with this name. Raises ConversionError."""
        key = (name,)
        changes = self._cache.get(key)
        if changes is None:
            changes = self._cache[key] = _changes((step, step.plan_of_type(own)) for step, own in self._names(name))
        return apply_changes(value, changes, report)

    def error(self, direction: str, method: str, code: int) -> int:
        """Convert the error code of a response to a request that was sent in this direction."""
        for _, plans, _ in self._plans_of(direction, method):
            code = plans.get("errors", {}).get(code, code)
        return code

    def removed_method(self, direction: str, method: str) -> RemovedMethod | None:
        """Return the rule for a method that the target does not define, None if the target defines it."""
        for step in self._steps:
            removal = step.step["removed_methods"].get(direction, {}).get(method)
            if removal is not None:
                return RemovedMethod(removal[0], f"{removal[1]}: {step.step['rules'][removal[1]]}")
            method = step.renamed_method(direction, method)
        return None

    @property
    def plans(self) -> Sequence[Mapping[str, Any]]:
        """The generated steps, in the order in which they are applied."""
        return [step.step for step in self._steps]

    def _collect(
        self, direction: str, method: str, plan: Callable[[Mapping[str, Any], str], Any], interim: str = ""
    ) -> tuple[Change, ...]:
        return _changes((step, plan(plans, name)) for step, plans, name in self._plans_of(direction, method, interim))

    def _plans_of(
        self, direction: str, method: str, interim: str = ""
    ) -> Iterator[tuple[Operations, Mapping[str, Any], str]]:
        """Yield each step with its plans of a method, and with the name that a type of results has before it."""
        for step, name in self._names(interim):
            plans: Mapping[str, Any] = step.step["methods"].get(direction, {}).get(method, {})
            yield step, plans, name
            method = step.renamed_method(direction, method)

    def _names(self, name: str) -> Iterator[tuple[Operations, str]]:
        """Yield each step, with the name that a type has before it."""
        for step in self._steps:
            yield step, name
            name = step.renamed_type(name)


def _changes(plans: Iterable[tuple[Operations, Any]]) -> tuple[Change, ...]:
    changes = [step.change(plan) for step, plan in plans]
    return tuple(change for change in changes if change is not None)


def apply_changes(
    value: Any,
    changes: tuple[Change, ...],
    report: ConversionReport | None = None,
    provided: Mapping[str, Any] | None = None,
    *,
    spares_items: bool = False,
) -> Any:
    """Return the converted value. With `spares_items`, an item of a list that a rule refuses is left out.

    Raises ConversionError.
    """
    if not changes:
        return value
    if provided is None and report is None:
        walk = _STANDALONE_RESULT if spares_items else _STANDALONE
    else:
        walk = ConversionContext(provided or {}, report, spares_items)
    for change in changes:
        value = change(value, None, walk)
    return {} if value is REMOVED else value


@cache
def chain_of(package: str, source: str, target: str) -> Chain:
    """Return the chain between two revisions of a generated package."""
    neighbours: Sequence[tuple[str, str, str]] = import_module(package).CONVERSIONS
    order = [*(older for older, _, _ in neighbours[:1]), *(newer for _, newer, _ in neighbours)]
    first, last = (order.index(source), order.index(target)) if source != target else (0, 0)
    path = order[first : last + 1] if first <= last else order[last : first + 1][::-1]
    return Chain(source, target, [_operations(package, older_id, newer_id) for older_id, newer_id in pairwise(path)])


@cache
def _operations(package: str, source: str, target: str) -> Operations:
    """Return the step between two neighbouring revisions."""
    module = next(name for *revisions, name in import_module(package).CONVERSIONS if {source, target} == set(revisions))
    return Operations(import_module(f"{package}.converters.{module}").CONVERSIONS[target])
