"""Refuse keywords that a function does not have, and name the nearest one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, Final, TypedDict, TypeVar, cast

from .other_names import advice
from .rules import Rule, check_values

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

T = TypeVar("T")

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class NoKeywords(TypedDict):
    """The keywords of a function that has none besides its parameters: type checkers report all others."""


def refuse_unknown(function: str, keywords: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise TypeError for the first keyword that is not allowed, with what to write instead.

    Args:
        function: The name of the function, as its user calls it.
        keywords: The keywords of the call.
        allowed: The keywords that the function has.
    """
    names = sorted(allowed)
    for keyword in keywords:
        if keyword not in names:
            raise TypeError(f"{function}() has no keyword argument {keyword!r}; {_remedy(function, keyword, names)}")


def nearest(name: str, names: Sequence[str], kind: str) -> str:
    """Return a question with the nearest of some names; if none is near, a sentence with all of them.

    Args:
        name: What a user has written.
        names: What is allowed.
        kind: What the names are, in the plural.
    """
    from difflib import get_close_matches

    matches = get_close_matches(name.lower(), names, 1)
    return f"did you mean {matches[0]!r}?" if matches else f"the {kind} are {', '.join(names)}"


def keywords_of(*settings: type[Any]) -> frozenset[str]:
    """Return the keys of TypedDicts, which are the keywords of functions."""
    return frozenset(
        key for typed_dict in settings for key in (*typed_dict.__required_keys__, *typed_dict.__optional_keys__)
    )


def checked(
    *settings: type[Any], rules: Mapping[str, Rule] | None = None, example: str = ""
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that checks the arguments of a function before it runs.

    The function refuses unknown keywords, missing arguments and values that break a rule. It costs one more call, so
    functions that run for every message are not decorated.

    Args:
        settings: The TypedDicts with the keywords of `**settings`.
        rules: The rules of values, by the names of arguments.
        example: A right call, which the messages about missing and superfluous arguments show.

    The function raises TypeError for wrong keywords and missing arguments, and LocalError for wrong values.
    """

    def decorate(function: FunctionT) -> FunctionT:
        @cache  # Modules are imported faster if signatures are inspected at the first call.
        def call() -> _CallRules:
            return _CallRules(function, keywords_of(*settings), rules or {}, example)

        @wraps(function)
        def checked_function(*arguments: Any, **keywords: Any) -> Any:
            call().check(arguments, keywords)
            return function(*arguments, **keywords)

        return cast(FunctionT, checked_function)

    return decorate


def checked_fields(rules: Mapping[str, Rule] | None = None) -> Callable[[type[T]], type[T]]:
    """Return a decorator that checks the arguments of the constructor of a dataclass, as `checked` does."""

    def decorate(dataclass: type[T]) -> type[T]:
        type.__setattr__(dataclass, "__init__", checked(rules=rules)(vars(dataclass)["__init__"]))
        return dataclass

    return decorate


class _CallRules:
    """The calls of one function: its parameters, and the checks of its arguments."""

    def __init__(
        self, function: Callable[..., Any], settings: frozenset[str], rules: Mapping[str, Rule], example: str
    ) -> None:
        parameters = [*inspect.signature(function).parameters.values()]
        self._name = function.__name__
        self._receiver = parameters[0].name if parameters and parameters[0].name in ("self", "cls") else None
        own = [parameter for parameter in parameters[self._receiver is not None :]]
        self._positional = [parameter.name for parameter in own if _is_positional(parameter)]
        self._required = [
            parameter.name
            for parameter in own
            if parameter.default is parameter.empty and parameter.kind not in _VARIADIC
        ]
        self._is_variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in own)
        only_positional = {parameter.name for parameter in own if parameter.kind is parameter.POSITIONAL_ONLY}
        named = {parameter.name for parameter in own if parameter.kind not in _VARIADIC}
        self._allowed = (named - only_positional) | settings
        self._rules = rules
        self._remedy = f": write {example}" if example else ""

    def check(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Raise TypeError or LocalError for the first error of a call."""
        values = arguments[self._receiver is not None :]
        if not keywords.keys() <= self._allowed:
            refuse_unknown(self._label(arguments), keywords, self._allowed)
        if len(values) > len(self._positional) and not self._is_variadic:
            raise TypeError(
                f"{self._label(arguments)}() takes at most {len(self._positional)} arguments without a keyword, not "
                f"{len(values)}"
                f"{self._remedy or ': pass the others by keyword'}"
            )
        named = dict(zip(self._positional, values, strict=False))
        for name in self._required:
            if name not in named and name not in keywords:
                raise TypeError(f"{self._label(arguments)}() needs the argument {name!r}{self._remedy}")
        if self._rules:
            check_values(self._label(arguments), {**named, **keywords}, self._rules)

    def _label(self, arguments: tuple[Any, ...]) -> str:
        """Return the name of the function as its user calls it: `App` for a constructor, `Client.http`, `tool`."""
        if self._name == "__init__":
            return type(arguments[0]).__name__
        return f"{arguments[0].__name__}.{self._name}" if self._receiver == "cls" else self._name


def _is_positional(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)


def _remedy(function: str, keyword: str, names: list[str]) -> str:
    if (text := advice(function, keyword, names)) is not None:
        return text
    return nearest(keyword, names, "keywords") if names else "it has none"
