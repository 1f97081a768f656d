"""Introspection of functions: docstrings, and type hints that pydantic can read."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

import typing_extensions

from ..errors import LocalError


class Docstring(NamedTuple):
    """A parsed docstring: the text before the sections, and the descriptions of the parameters."""

    text: str | None
    parameters: dict[str, str]


def parse_docstring(function: Callable[..., Any]) -> Docstring:
    """Parse a docstring in Google, NumPy or reST style; other docstrings are used as the text.

    Raises LocalError if docstring-parser is not installed.
    """
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
    parameters = {parameter.arg_name: parameter.description for parameter in parsed.params if parameter.description}
    text = (parsed.description or "").strip()
    return Docstring(text or None, parameters)


def pydantic_compatible(hint: Any) -> Any:
    """Return the hint with every `typing.TypedDict` replaced by one of typing_extensions, which pydantic needs before
    Python 3.12."""
    if sys.version_info >= (3, 12):
        return hint
    if is_typeddict(hint):
        return _as_extension(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if not isinstance(origin, type) or not any(map(is_typeddict, inner)):
        return hint
    kind: Any = origin
    return kind[tuple(map(pydantic_compatible, inner))]


def _as_extension(hint: Any) -> Any:
    fields: dict[str, Any] = {}
    for name, annotation in get_type_hints(hint, include_extras=True).items():
        bare = get_args(annotation)[0] if get_origin(annotation) in (Required, NotRequired) else annotation
        wrapper: Any = Required if name in hint.__required_keys__ else NotRequired
        fields[name] = wrapper[pydantic_compatible(bare)]
    make: Any = typing_extensions.TypedDict
    return make(hint.__name__, fields)
