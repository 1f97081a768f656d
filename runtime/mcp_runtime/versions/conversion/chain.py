"""Two revisions of one family go in, and what converts messages between them comes out: a chain of generated steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

from .operations import REMOVED, Change, ConversionContext, Operations
from .report import ConversionReport

_STANDALONE: Final = ConversionContext({}, None)


@dataclass(frozen=True, slots=True)
class RemovedMethod:
    """The other revision does not have the method: `answer` says what then (`runtime`: both sides do the same by
    themselves; `refuse`; `ignore`), and `why` by which rule."""

    response: str
    reason: str


class Chain:
    """Converts messages from one revision to another, through every revision between them."""

    def __init__(self, source: str, target: str, steps: Sequence[Operations]) -> None:
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
        given: Mapping[str, Any] | None = None,
    ) -> Any:
        """The params of a message. `given` has what a session knows and messages do not say: `client_capabilities`.
        Raises ConversionError."""
        key = (direction, method)
        changes = self._cache.get(key)
        if changes is None:
            changes = self._cache[key] = self._collect(lambda step: _method(step, *key).get("params"))
        return _apply(value, changes, report, given)

    def result(
        self, direction: str, method: str, value: Any, report: ConversionReport | None = None, interim: str = ""
    ) -> Any:
        """The result of a request that went in this direction; `interim` names its type where it is not the last one.
        Raises ConversionError."""
        return _apply(value, self._results(direction, method, interim), report, None)

    def keeps_result_shape(self, direction: str, method: str) -> bool:
        """Whether every result of this method is the same in both revisions."""
        return not self._results(direction, method, "")

    def _results(self, direction: str, method: str, interim: str) -> tuple[Change, ...]:
        key = (direction, method, interim)
        changes = self._cache.get(key)
        if changes is None:
            changes = self._cache[key] = self._collect(
                lambda step: _method(step, direction, method).get("results", {}).get(interim)
            )
        return changes

    def convert_type(self, name: str, value: Any, report: ConversionReport | None = None) -> Any:
        """A value of a type that both revisions have under this name, such as capabilities. Raises ConversionError."""
        key = (name,)
        changes = self._cache.get(key)
        if changes is None:
            changes = self._cache[key] = self._collect(
                lambda step: ("type", name) if name in step.step["types"] else None
            )
        return _apply(value, changes, report, None)

    def error(self, direction: str, method: str, code: int) -> int:
        """The code of an error that answers a request which went in this direction."""
        for step in self._steps:
            code = _method(step, direction, method).get("errors", {}).get(code, code)
        return code

    def removed_method(self, direction: str, method: str) -> RemovedMethod | None:
        """What happens to a method of the source that the target does not have; None where it has it."""
        for step in self._steps:
            said = step.step["gone"].get(direction, {}).get(method)
            if said is not None:
                return RemovedMethod(said[0], f"{said[1]}: {step.step['rules'][said[1]]}")
        return None

    def _collect(self, plan: Callable[[Operations], Any]) -> tuple[Change, ...]:
        changes = [step.change(plan(step)) for step in self._steps]
        return tuple(change for change in changes if change is not None)


def _method(step: Operations, direction: str, method: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = step.step["methods"].get(direction, {}).get(method, {})
    return found


def _apply(
    value: Any, changes: tuple[Change, ...], report: ConversionReport | None, given: Mapping[str, Any] | None
) -> Any:
    if not changes:
        return value
    walk = _STANDALONE if given is None and report is None else ConversionContext(given or {}, report)
    for change in changes:
        value = change(value, None, walk)
    return {} if value is REMOVED else value


@cache
def chain_of(package: str, source: str, target: str) -> Chain:
    """The chain between two revisions of the package that holds them."""
    pairs: Sequence[tuple[str, str, str]] = import_module(package).CONVERSIONS
    order = [*(older for older, _, _ in pairs[:1]), *(newer for _, newer, _ in pairs)]
    first, last = (order.index(source), order.index(target)) if source != target else (0, 0)
    path = order[first : last + 1] if first <= last else order[last : first + 1][::-1]
    return Chain(source, target, [_operations(package, one, other) for one, other in pairwise(path)])


@cache
def _operations(package: str, source: str, target: str) -> Operations:
    """The step between two neighbours."""
    module = next(name for *pair, name in import_module(package).CONVERSIONS if {source, target} == set(pair))
    return Operations(import_module(f"{package}.converters.{module}").CONVERSIONS[target])
