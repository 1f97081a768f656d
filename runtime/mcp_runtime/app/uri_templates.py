"""A URI template (RFC 6570) goes in, and says of a URI whether it has that shape, and what stands for the variables.

Expansions that can be read back are taken: `{name}`, `{+name}`, `{name*}`, `{/name}` and, at the end, `{?name,other}`.
Matching is linear in the URI. A value that would lead out of where it stands is refused, in encoded forms too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, unquote_plus

from ..errors import JSONRPCError, LocalError
from ..protocol.jsonrpc import INVALID_PARAMS

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"([+/]?)([A-Za-z_][A-Za-z0-9_]*)(\*?)")
_QUERY: Final = re.compile(r"\?[A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*")
_MAX_LENGTH: Final = 8192  # Characters of a URI.
_MAX_SHOWN: Final = 200  # Characters of a URI in a message.
_DECODINGS: Final = 3  # How often a value is decoded to see what it might become.


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of the path, whether it may span several segments, and the text that follows it."""

    name: str
    spans: bool
    after: str


class URITemplate:
    """A URI template, or a URI without variables."""

    def __init__(self, text: str) -> None:
        """Raises LocalError for an expression that cannot be read back, and for a URI without a scheme."""
        self.text = text
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
            raise LocalError(f"{text!r} is not the URI of a resource: it has no scheme")
        pieces = _EXPRESSION.split(text)
        self._query: tuple[str, ...] = ()
        if len(pieces) > 2 and pieces[-1] == "" and _QUERY.fullmatch(pieces[-2]):
            self._query = tuple(pieces[-2][1:].split(","))
            del pieces[-2:]
        self._before = pieces[0]
        self._variables: list[_Variable] = []
        for expression, literal in zip(pieces[1::2], pieces[2::2]):
            self._add(expression, literal)
        if any("{" in piece or "}" in piece for piece in pieces[::2]):
            raise LocalError(f"{text!r} is not a URI template: a brace stands alone")
        if len({*self.names}) < len(self.names):
            raise LocalError(f"{text!r} has a variable twice")

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, in the order in which they stand."""
        return (*(gap.name for gap in self._variables), *self._query)

    @property
    def optional(self) -> frozenset[str]:
        """The variables that a URI may leave out: those of the query."""
        return frozenset(self._query)

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the variables, decoded; None for a URI of another shape.

        Raises JSONRPCError (invalid params) for a value that leads elsewhere, such as `..`.
        """
        if len(uri) > _MAX_LENGTH:
            return None
        path, _, query = uri.partition("?") if self._query else (uri, "", "")
        if not path.startswith(self._before):
            return None
        values: dict[str, str] = {}
        at = len(self._before)
        for number, gap in enumerate(self._variables):
            last = number == len(self._variables) - 1
            if last:
                end = len(path) - len(gap.after) if path.endswith(gap.after) else -1
            else:
                end = path.find(gap.after, at + 1)
            if end <= at or (not gap.spans and "/" in path[at:end]):
                return None
            values[gap.name] = _decode_safely(path[at:end], gap.spans, uri)
            at = end + len(gap.after)
        return values | self._match_query(query) if at == len(path) else None

    def _match_query(self, query: str) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in query.split("&") if pair)
        return {name: unquote_plus(value, errors="strict") for name, _, value in pairs if name in self._query}

    def _add(self, expression: str, literal: str) -> None:
        found = _VARIABLE.fullmatch(expression)
        if found is None:
            rule = "{name}, {+name}, {name*}, {/name} and a last {?name,…} can be matched"
            raise LocalError(f"{self.text!r}: {{{expression}}} cannot be read back from a URI; {rule}")
        operator, name, star = found.groups()
        if operator == "/":
            self._extend("/")
        elif self._variables and self._variables[-1].after == "":
            raise LocalError(f"{self.text!r}: nothing stands between {{{expression}}} and the variable before it")
        self._variables.append(_Variable(name, operator == "+" or star == "*", literal))

    def _extend(self, text: str) -> None:
        if self._variables:
            last = self._variables[-1]
            self._variables[-1] = _Variable(last.name, last.spans, last.after + text)
        else:
            self._before += text


def _decode_safely(raw: str, spans: bool, uri: str) -> str:
    """The decoded value. Raises JSONRPCError where it, or what it becomes when it is decoded again, leads elsewhere."""
    try:
        value = again = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise JSONRPCError(INVALID_PARAMS, f"resource not found: {uri[:_MAX_SHOWN]!r} is not UTF-8") from None
    for _ in range(_DECODINGS):
        segments = re.split(r"[/\\]", again)
        leads_out = {".", ".."} & {segment.strip() for segment in segments}
        absolute = segments[0] == "" or re.match(r"[A-Za-z]:", again) if spans else len(segments) > 1
        if leads_out or absolute or "\0" in again or "\\" in again:
            raise JSONRPCError(INVALID_PARAMS, f"resource not found: {uri[:_MAX_SHOWN]!r} leads out of where it stands")
        again = unquote(again)
    return value
