"""The docstring of a function goes in; what it says of the function, and of each parameter, comes out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import LocalError


class Described(NamedTuple):
    """The text before the sections, and the text of each parameter."""

    text: str | None
    parameters: dict[str, str]


def described(function: Callable[..., Any]) -> Described:
    """What a docstring in the style of Google, NumPy or reST says. Text that has none of these is taken whole."""
    doc = inspect.getdoc(function)
    if not doc:
        return Described(None, {})
    if "\n" not in doc:
        return Described(doc, {})
    try:
        import docstring_parser
    except ImportError:
        raise LocalError("reading docstrings needs docstring-parser: pip install 'mcp-codegen[app]'") from None
    try:
        parsed = docstring_parser.parse(doc)
    except docstring_parser.ParseError:
        return Described(doc, {})
    parameters = {each.arg_name: each.description for each in parsed.params if each.description}
    text = (parsed.description or "").strip()
    return Described(text or None, parameters)
