"""Docstrings in Google, NumPy, reST or Epydoc style: the text, and the descriptions of the parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

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
