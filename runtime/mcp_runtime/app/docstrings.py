"""The docstring of a function goes in; what it says of the function, and of each parameter, comes out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import LocalError


class Docstring(NamedTuple):
    """The text before the sections, and the text of each parameter."""

    text: str | None
    parameters: dict[str, str]


def parse_docstring(function: Callable[..., Any]) -> Docstring:
    """What a docstring in the style of Google, NumPy or reST says. Text that has none of these is taken whole."""
    doc = inspect.getdoc(function)
    if not doc:
        return Docstring(None, {})
    if "\n" not in doc:
        return Docstring(doc, {})
    try:
        import docstring_parser
    except ImportError:
        raise LocalError("reading docstrings needs docstring-parser: pip install 'mcp-codegen[app]'") from None
    try:
        parsed = docstring_parser.parse(doc)
    except docstring_parser.ParseError:
        return Docstring(doc, {})
    parameters = {each.arg_name: each.description for each in parsed.params if each.description}
    text = (parsed.description or "").strip()
    return Docstring(text or None, parameters)
