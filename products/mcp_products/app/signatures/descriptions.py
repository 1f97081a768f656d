"""Descriptions of parameters: those of docstrings in Google, NumPy, reST or Epydoc style, and those in `Annotated`, a
text or a `Doc` of PEP 727."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import typing_extensions

from mcp_runtime.protocol.models import is_list

from ..components.functions import docstring_of

_PARAMETERS: Final = ("args", "arguments", "parameters", "params", "other parameters", "keyword args")
# The sections that describe the interface, which the schemas do. Others, such as examples, belong to the text.
_SECTIONS: Final = (*_PARAMETERS, "keyword arguments", "attributes", "returns", "return", "yields", "raises", "warns")

_GOOGLE_HEADER: Final = re.compile(r"([A-Z][A-Za-z ]*):\s*")
_GOOGLE_PARAMETER: Final = re.compile(r"\*{0,2}([A-Za-z_]\w*)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_NUMPY_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_NUMPY_PARAMETER: Final = re.compile(r"(\*{0,2}[A-Za-z_]\w*(?:\s*,\s*\*{0,2}[A-Za-z_]\w*)*)\s*(?::.*)?")
_FIELD: Final = re.compile(
    r"[:@](param|parameter|arg|argument|key|keyword|type|returns?|rtype|yields?|raises?|except|exception)\b"
    r"([^:]*):(?:\s+(.*)|$)"
)
_FIELDS_OF_PARAMETERS: Final = ("param", "parameter", "arg", "argument", "key", "keyword")


class Docstring(NamedTuple):
    """A parsed docstring: the text without the sections for parameters, results and errors, and the descriptions of
    the parameters."""

    text: str | None
    parameters: dict[str, str]


def parse_docstring(function: Callable[..., Any]) -> Docstring:
    """Parse the docstring of a function."""
    doc = docstring_of(function)
    if not doc:
        return Docstring(None, {})
    if "\n" not in doc:
        return Docstring(doc, {})
    lines = doc.splitlines()
    text: list[str] = []
    parameters: dict[str, str] = {}
    number = 0
    while number < len(lines):
        field = _FIELD.match(lines[number])
        header, first = _section(lines, number)
        if field is not None:
            end = _indented(lines, number + 1, blank=False)
            if field[1] in _FIELDS_OF_PARAMETERS and (words := field[2].split()):
                parameters[words[-1].lstrip("*")] = _join([field[3] or "", *lines[number + 1 : end]])
        elif header is not None:
            numpy = first == number + 2
            end = _numpy_end(lines, first) if numpy else _indented(lines, first, blank=True)
            if header in _PARAMETERS:
                parameters |= _parameters(lines[first:end], numpy)
        else:
            text.append(lines[number])
            end = number + 1
        number = end
    described = {name: description for name, description in parameters.items() if description}
    return Docstring(re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip() or None, described)


def _section(lines: list[str], number: int) -> tuple[str | None, int]:
    """Return the name of the section that begins in a line, and the number of its first line; None without one."""
    following = lines[number + 1] if number + 1 < len(lines) else ""
    name = lines[number].strip().lower()
    if name in _SECTIONS and _NUMPY_UNDERLINE.fullmatch(following):
        return name, number + 2
    header = _GOOGLE_HEADER.fullmatch(lines[number])
    if header is not None and header[1].lower() in _SECTIONS and following.startswith((" ", "\t")):
        return header[1].lower(), number + 1
    return None, number


def _indented(lines: list[str], number: int, *, blank: bool) -> int:
    """Return the end of the indented lines from a number on; `blank` says whether empty lines belong to them."""
    while number < len(lines) and (lines[number].startswith((" ", "\t")) or (blank and not lines[number].strip())):
        number += 1
    return number


def _numpy_end(lines: list[str], number: int) -> int:
    """Return the number of the next underlined header, or of the end."""
    underlines = (index for index in range(number + 1, len(lines)) if _NUMPY_UNDERLINE.fullmatch(lines[index]))
    return next(underlines, len(lines) + 1) - 1


def _parameters(lines: list[str], numpy: bool) -> dict[str, str]:
    """Return the descriptions in a section. Lines that are indented deeper than the first continue a description."""
    filled = [line for line in lines if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    parameters: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        starts = line.strip() and not line[indent : indent + 1].isspace()
        entry = (_NUMPY_PARAMETER.fullmatch if numpy else _GOOGLE_PARAMETER.match)(line.strip()) if starts else None
        if entry is not None:
            names = [name.strip().lstrip("*") for name in entry[1].split(",")]
            parameters |= dict.fromkeys(names, "" if numpy else entry[2] or "")
        else:
            parameters |= {name: f"{parameters[name]}\n{line}" for name in names}
    return {name: _join(description.split("\n")) for name, description in parameters.items()}


def _join(lines: list[str]) -> str:
    """Return a description without the indentation of its lines after the first one."""
    return inspect.cleandoc("\n".join(lines)).strip()


# Descriptions in `Annotated`.


def is_description(metadata: object) -> bool:
    """Return True for metadata of `Annotated` that describes a type in words."""
    return isinstance(metadata, (str, typing_extensions.Doc))


def described(hint: Any) -> Any:
    """Return a type hint with its texts as descriptions that pydantic reads: `Annotated[int, "the number"]`.

    A `Field(description=…)` takes precedence. Types inside of the type have their own.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal or not _has_text(hint):
        return hint
    if origin is Annotated:
        return _described_annotated(described(inner[0]), inner[1:])
    items = tuple([*map(described, item)] if is_list(item) else described(item) for item in inner)
    if origin in (Union, UnionType):
        return Union[items]  # noqa: UP007 — `|` has no form for a tuple of types.
    kind: Any = origin
    return hint.copy_with(items) if hasattr(hint, "copy_with") else kind[items]


def _described_annotated(inner: Any, metadata: tuple[Any, ...]) -> Any:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    texts = [item if isinstance(item, str) else item.documentation for item in metadata if is_description(item)]
    rest = [item for item in metadata if not is_description(item)]
    own = any(isinstance(item, FieldInfo) and item.description for item in rest)
    if texts and not own:
        rest.append(Field(description=texts[0]))
    return Annotated[(inner, *rest)] if rest else inner


def _has_text(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return False
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return any(map(is_description, inner[1:])) or _has_text(inner[0])
    return any(map(_has_text, inner))
