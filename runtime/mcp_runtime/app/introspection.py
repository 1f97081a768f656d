"""The docstring of a function goes in; what it says of the function, and of each parameter, comes out."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import (
    Any,
    NamedTuple,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import typing_extensions

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


def pydantic_compatible(hint: Any) -> Any:
    """The hint, with each `typing.TypedDict` in it as that of typing_extensions, where pydantic needs this."""
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
    for name, each in get_type_hints(hint, include_extras=True).items():
        bare = get_args(each)[0] if get_origin(each) in (Required, NotRequired) else each
        wrapper: Any = Required if name in hint.__required_keys__ else NotRequired
        fields[name] = wrapper[pydantic_compatible(bare)]
    make: Any = typing_extensions.TypedDict
    return make(hint.__name__, fields)
