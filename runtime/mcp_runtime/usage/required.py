"""Name the arguments that a call of a generated method lacks, and the keyword that was misspelt."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any, Final, TypeVar, cast

ClassT = TypeVar("ClassT")

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")
_VARIADIC_KEYWORDS: Final = 0x08  # `inspect.CO_VARKEYWORDS`


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
