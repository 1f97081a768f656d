"""Refuse keywords that a function does not have, and name the nearest one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast

from .. import products
from .rules import Rule, check_values

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

T = TypeVar("T")

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
ClassT = TypeVar("ClassT")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")
_VARIADIC_KEYWORDS: Final = 0x08  # `inspect.CO_VARKEYWORDS`


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


class NoAttributeError(AttributeError):
    """An attribute that an object does not have; the text, which says what exists, is made when somebody reads it."""

    def __init__(self, receiver: object, name: str, remedy: str = "") -> None:
        """Create the error.

        Args:
            receiver: The object.
            name: The name of the attribute.
            remedy: What to write instead; by default the nearest public name, or all of them.
        """
        super().__init__(name)
        self._receiver = receiver
        self._remedy = remedy

    def __str__(self) -> str:
        receiver, [name] = self._receiver, self.args
        text = f"{type(receiver).__name__!r} object has no attribute {name!r}"
        if name.startswith("_"):
            return text
        public = [other for other in (*dir(type(receiver)), *vars(receiver)) if not other.startswith("_")]
        return f"{text}; {self._remedy or nearest(name, public, 'names')}"


class NamesOfAttributes:
    """The base of objects that say what they have, when something is misspelt."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Raise AttributeError with the nearest name."""
            raise NoAttributeError(self, name)


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
        self._positional = [parameter.name for parameter in own if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
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
            most = f"{len(self._positional)} argument{'s' * (len(self._positional) != 1)}"
            raise TypeError(
                f"{self._label(arguments)}() takes at most {most} without a keyword, not "
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


def _remedy(function: str, keyword: str, names: list[str]) -> str:
    other_names = products.find("other_names")  # The keywords of other SDKs.
    if other_names is not None and (text := other_names.advice(function, keyword, names)) is not None:
        return str(text)
    return nearest(keyword, names, "keywords") if names else "it has none"


# Name the arguments that a call of a generated method lacks, and the keyword that was misspelt.


class RequiredArgument:
    """The value of an argument that a call lacks. It fits no type, so no message with it is sent."""

    def __repr__(self) -> str:
        return "<required>"


MISSING: Final[Any] = RequiredArgument()


def named_when_missing(owner: type[ClassT]) -> type[ClassT]:
    """Let the methods of a class start without their required arguments.

    Python's own message for `call_tool(nam="add")` is about `name`. A method that starts refuses `nam` first, and names
    the keyword that is near; `refuse_missing` then names an argument that is missing. Complete calls cost nothing.
    """
    for value in vars(owner).values():
        function = getattr(value, "__wrapped__", value)
        if isinstance(function, FunctionType) and function.__code__.co_flags & _VARIADIC_KEYWORDS:
            _let_start(function)
    return owner


def _let_start(function: FunctionType) -> None:
    code = function.__code__
    own = code.co_varnames[1 : code.co_argcount]
    if own[:1] == ("params",):  # A whole message has no keywords that could be misspelt.
        return
    defaults = function.__defaults__ or ()
    function.__defaults__ = (MISSING,) * (len(own) - len(defaults)) + defaults
    only_keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    function.__kwdefaults__ = {**dict.fromkeys(only_keywords, MISSING), **(function.__kwdefaults__ or {})}


def refuse_missing(method: str, params: object) -> None:
    """Raise TypeError for the first argument that is missing; `params` are the params of the message."""
    if isinstance(params, dict):
        for name, value in cast("dict[str, Any]", params).items():
            if value is MISSING:
                argument = _CAPITAL.sub(lambda match: f"_{match.group().lower()}", name)
                raise TypeError(f"{method}() needs the argument {argument!r}: write {method}({argument}=…)")
