"""`UriTemplate` of the official SDK: URI templates (RFC 6570) that are expanded, and that URIs are matched with.

Matching takes linear time. What stands before a variable that may span segments is read from the left, the rest from
the right: each variable ends at the nearest text that the template spells out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote, unquote

from mcp_runtime.protocol.models import is_list

DEFAULT_MAX_TEMPLATE_LENGTH: Final = 8_192
DEFAULT_MAX_VARIABLES: Final = 256
DEFAULT_MAX_URI_LENGTH: Final = 65_536

_NAME: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_TRIPLET: Final = re.compile(r"(%[0-9A-Fa-f]{2})")
_RESERVED: Final = ":/?#[]@!$&'()*+,;=-._~"


class _Operator(NamedTuple):
    """What an operator writes, and which characters end a value of it."""

    first: str
    separator: str
    is_named: bool
    stops: str


_OPERATORS: Final = {
    "": _Operator("", ",", False, "/?#&,"),
    "+": _Operator("", ",", False, "?#"),
    "#": _Operator("#", ",", False, ""),
    ".": _Operator(".", ".", False, "./?#"),
    "/": _Operator("/", "/", False, "/?#"),
    ";": _Operator(";", ";", True, ";/?#"),
    "?": _Operator("?", "&", True, "&#"),
    "&": _Operator("&", "&", True, "&#"),
}


class InvalidUriTemplate(ValueError):  # noqa: N818 - The official SDK has this name.
    """A template that cannot be used; `position` is the place in it, if the reason has one."""

    def __init__(self, message: str, *, template: str, position: int | None = None) -> None:
        """Create the error."""
        super().__init__(message)
        self.template = template
        self.position = position


@dataclass(frozen=True)
class Variable:
    """A variable of a template."""

    name: str
    operator: str
    explode: bool = False

    @property
    def spans(self) -> bool:
        """True if its value may span several segments."""
        return self.explode or self.operator in ("+", "#")

    @property
    def text(self) -> str:
        """What stands before its value, beside the separator."""
        return f"{self.name}=" if self.operator in ("?", "&") else self.name if self.operator == ";" else ""


_Atom = str | Variable


@dataclass(frozen=True)
class UriTemplate:
    """A URI template: `UriTemplate.parse("file:///{name}")`. Two with the same text are equal."""

    template: str
    _parts: tuple[str | tuple[Variable, ...], ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def is_template(value: str) -> bool:
        """Return True if a text has an expression in braces."""
        start = value.find("{")
        return start >= 0 and value.find("}", start) > start

    @classmethod
    def parse(
        cls, template: str, *, max_length: int = DEFAULT_MAX_TEMPLATE_LENGTH, max_variables: int = DEFAULT_MAX_VARIABLES
    ) -> UriTemplate:
        """Return a template. Raises InvalidUriTemplate for one that is too long, wrong, or cannot be matched."""
        if len(template) > max_length:
            raise InvalidUriTemplate(f"Template exceeds maximum length of {max_length}", template=template)
        parsed = cls(template, tuple(_parts_of(template)))
        if len(parsed.variables) > max_variables:
            raise InvalidUriTemplate(f"Template exceeds maximum of {max_variables} variables", template=template)
        parsed._check()
        return parsed

    def _check(self) -> None:
        def refuse(reason: str) -> None:
            raise InvalidUriTemplate(reason, template=self.template)

        names = self.variable_names
        if repeated := [name for name in names if names.count(name) > 1]:
            refuse(f"Variable {repeated[0]!r} appears more than once")
        if sum(not isinstance(part, str) and part[0].operator == "?" for part in self._parts) > 1:
            refuse("Template has more than one {?...} expression; write {?a,b} or {?a}{&b}")
        for first, second in pairwise(self._atoms):
            if isinstance(first, Variable) and isinstance(second, Variable):
                refuse(f"Variables {first.name!r} and {second.name!r} are adjacent with no literal separator")
        if sum(isinstance(atom, Variable) and atom.spans for atom in self._atoms) > 1:
            refuse("Template has more than one multi-segment variable")

    @cached_property
    def variables(self) -> list[Variable]:
        """The variables, in the order of the template."""
        return [variable for part in self._parts if not isinstance(part, str) for variable in part]

    @property
    def variable_names(self) -> list[str]:
        """The names of the variables."""
        return [variable.name for variable in self.variables]

    @property
    def query_variable_names(self) -> frozenset[str]:
        """The names of the variables at the end that a URI may omit."""
        return frozenset(variable.name for part in self._parts[self._tail :] for variable in part if part)  # type: ignore[union-attr]

    @cached_property
    def _tail(self) -> int:
        """Where the query begins whose parameters may be absent and in any order: at `{?…}`, if nothing but `{&…}`
        follows and no question mark or fragment stands before."""
        end = len(self._parts)
        start = end
        while start and not isinstance(part := self._parts[start - 1], str) and part[0].operator in ("?", "&"):
            start -= 1
        if start == end or self._parts[start][0].operator != "?":  # type: ignore[union-attr]
            return end
        for part in self._parts[:start]:
            if ("?" in part or "#" in part) if isinstance(part, str) else part[0].operator == "#":
                return end
        return start

    @cached_property
    def _atoms(self) -> list[_Atom]:
        """Texts and variables in turn, without the query at the end."""
        atoms: list[_Atom] = []
        for part in self._parts[: self._tail]:
            if isinstance(part, str):
                atoms.append(part)
                continue
            operator = _OPERATORS[part[0].operator]
            for number, variable in enumerate(part):
                lead = operator.separator if number else operator.first
                atoms += [variable] if variable.explode else [lead + variable.text, variable]
        merged: list[_Atom] = []
        for atom in atoms:
            last = merged[-1] if merged else None
            if isinstance(atom, str) and isinstance(last, str):
                merged[-1] = last + atom
            elif atom:
                merged.append(atom)
        return merged

    # ---- expansion --------------------------------------------------------------------------------------------------

    def expand(self, variables: Mapping[str, str | Sequence[str]]) -> str:
        """Return the URI with these values; a variable without a value is left out.

        Raises TypeError for a value that is neither a text nor a list of texts.
        """
        return "".join(part if isinstance(part, str) else _expanded(part, variables) for part in self._parts)

    def __str__(self) -> str:
        return self.template

    # ---- matching ---------------------------------------------------------------------------------------------------

    def match(self, uri: str, *, max_uri_length: int = DEFAULT_MAX_URI_LENGTH) -> dict[str, str | list[str]] | None:
        """Return the decoded values of a URI; None if it does not match, or is longer than the limit."""
        if len(uri) > max_uri_length:
            return None
        if self._tail == len(self._parts):
            return self._scanned(uri)
        path, _, query = uri.partition("#")[0].partition("?")
        values = self._scanned(path)
        if values is not None:
            given: dict[str, str] = {}
            for name, _, value in (item.partition("=") for item in query.split("&")):
                given.setdefault(name, unquote(value))
            asked = self.query_variable_names & given.keys()
            values |= {name: given[name] for name in self.variable_names if name in asked}
        return values

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str], Variable | None, list[Variable]]:
        """What stands before the variable that spans segments, and what stands after it, written backwards."""
        spanning = next((n for n, atom in enumerate(self._atoms) if isinstance(atom, Variable) and atom.spans), None)
        before = [] if spanning is None else self._atoms[:spanning]
        after = self._atoms if spanning is None else self._atoms[spanning + 1 :]
        left = "".join(_forwards(before))
        right = "".join(_backwards(after, is_whole=spanning is None))
        order = [atom for atom in (*before, *reversed(after)) if isinstance(atom, Variable)]
        whole = None if spanning is None else self._atoms[spanning]
        return re.compile(left, re.DOTALL), re.compile(right, re.DOTALL), whole, order  # type: ignore[return-value]

    def _scanned(self, uri: str) -> dict[str, str | list[str]] | None:
        left, right, spanning, order = self._patterns
        if (start := left.match(uri)) is None:
            return None
        rest = uri[start.end() :]
        end = right.match(rest[::-1]) if spanning is not None else right.fullmatch(rest[::-1])
        if end is None:
            return None
        texts = [*start.groups(), *(text and text[::-1] for text in end.groups())]
        values: dict[str, str | list[str]] = {
            variable.name: unquote(text or "") for variable, text in zip(order, texts, strict=True)
        }
        if spanning is not None:
            value = _spanned(spanning, rest[: len(rest) - end.end()])
            if value is None:
                return None
            values[spanning.name] = value
        return {name: values[name] for name in self.variable_names if name in values}


# ---- parsing ---------------------------------------------------------------------------------------------------------


def _parts_of(template: str) -> Iterator[str | tuple[Variable, ...]]:
    end = 0
    while (start := template.find("{", end)) >= 0:
        if start > end:
            yield template[end:start]
        end = template.find("}", start) + 1
        if not end:
            raise InvalidUriTemplate(f"Unclosed expression at position {start}", template=template, position=start)
        yield _expression(template, template[start + 1 : end - 1], start)
    if end < len(template):
        yield template[end:]


def _expression(template: str, body: str, position: int) -> tuple[Variable, ...]:
    def refuse(reason: str) -> None:
        raise InvalidUriTemplate(f"{reason} at position {position}", template=template, position=position)

    if not body:
        refuse("Empty expression")
    operator = body[0] if body[0] in _OPERATORS else ""
    if not (names := body[len(operator) :]):
        refuse("Expression has an operator but no variables")
    variables: list[Variable] = []
    for name in names.split(","):
        plain = name.removesuffix("*")
        if ":" in plain:
            refuse(f"Prefix modifier of {name!r} is not supported")
        if _NAME.fullmatch(plain) is None:
            refuse(f"Invalid variable name {name!r}")
        if plain != name and operator not in ("/", ".", ";"):
            refuse(f"Explode modifier of {name!r} is supported with the operators / . ; only")
        variables.append(Variable(plain, operator, plain != name))
    return tuple(variables)


# ---- expansion of one expression -------------------------------------------------------------------------------------


def _encoded(value: str, operator: str) -> str:
    if operator not in ("+", "#"):
        return quote(value, safe="-._~")
    return "".join(item if n % 2 else quote(item, safe=_RESERVED) for n, item in enumerate(_TRIPLET.split(value)))


def _expanded(variables: Sequence[Variable], values: Mapping[str, Any]) -> str:
    operator = _OPERATORS[variables[0].operator]
    texts: list[str] = []
    for variable in variables:
        if variable.name not in values:
            continue
        value = values[variable.name]
        kind = type(cast("object", value))
        is_sequence = is_list(value) or isinstance(value, tuple)
        items: list[Any] | None = [value] if isinstance(value, str) else [*cast("Any", value)] if is_sequence else None
        if items is None or not all(isinstance(item, str) for item in items):
            raise TypeError(f"Variable {variable.name!r} must be str or a sequence of str, got {kind.__name__}")
        encoded = [_encoded(item, variable.operator) for item in items]
        if encoded and not variable.explode:
            encoded = [",".join(encoded)]
        if operator.is_named:
            bare = variable.name if variable.operator == ";" else f"{variable.name}="
            encoded = [f"{variable.name}={item}" if item else bare for item in encoded]
        texts += encoded
    return operator.first + operator.separator.join(texts) if texts else ""


# ---- patterns --------------------------------------------------------------------------------------------------------


def _value(variable: Variable) -> str:
    return f"[^{re.escape(_OPERATORS[variable.operator].stops)}]*"


def _forwards(atoms: Sequence[_Atom]) -> Iterator[str]:
    """Yield the pattern of texts and variables, in which each variable ends at the next text."""
    for number, atom in enumerate(atoms):
        if isinstance(atom, Variable):
            text = re.escape(str(atoms[number + 1]))
            named = f"{text}|=({_value(atom)}?){text}" if atom.operator == ";" else f"({_value(atom)}?){text}"
            yield f"(?>{named})"
        elif not number or isinstance(atoms[number - 1], str):
            yield re.escape(atom)


def _backwards(atoms: Sequence[_Atom], is_whole: bool) -> Iterator[str]:
    """Yield the pattern of texts and variables from the last one on, in which all texts are written backwards."""
    for number in range(len(atoms) - 1, -1, -1):
        atom = atoms[number]
        if isinstance(atom, Variable):
            text = re.escape(str(atoms[number - 1])[::-1]) if number else ""
            if atom.operator == ";":
                yield f"(?>({_value(atom)})={text}|{text})"
            elif is_whole and number <= 1:
                yield f"({_value(atom)}){text}"
            else:
                yield f"(?>({_value(atom)}?){text})"
        elif number == len(atoms) - 1:
            yield re.escape(atom[::-1])


def _spanned(variable: Variable, text: str) -> str | list[str] | None:
    """Return the value of a variable that spans segments; None if the text is none."""
    operator = _OPERATORS[variable.operator]
    if not variable.explode:
        return None if any(stop in text for stop in operator.stops) else unquote(text)
    first, *items = text.split(operator.separator)
    stops = operator.stops.replace(operator.separator, "")
    if first or any(stop in text for stop in stops):
        return None
    if variable.operator != ";":
        return [unquote(item) for item in items]
    pairs = [item.partition("=") for item in items]
    return None if any(name != variable.name for name, _, _ in pairs) else [unquote(value) for _, _, value in pairs]
