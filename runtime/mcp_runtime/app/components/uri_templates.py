"""URI templates (RFC 6570): match a URI against a template, and extract the values of its variables.

Supported are the expansions that can be reversed: `{name}`, `{+name}`, `{name*}`, `{/name}` and, at the end,
`{?name,other}`. Matching takes linear time. Values with path traversal are rejected, encoded ones too.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...protocol.paths import has_backslash, has_separator, has_traversal, is_absolute

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"([+/]?)([A-Za-z_][A-Za-z0-9_]*)(\*?)")
_QUERY: Final = re.compile(r"\?[A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*")
_MAX_LENGTH: Final = 8192  # Characters of a URI.
_MAX_SHOWN: Final = 200  # Characters of a URI in a message.


class _Variable(NamedTuple):
    """A variable of the path: its name, True if it may span several segments, and the text after it."""

    name: str
    spans: bool
    after: str


class URITemplate:
    """A URI template, or a URI without variables."""

    def __init__(self, text: str) -> None:
        """Parse a template. Raises LocalError for an expression that cannot be matched, and for a URI without a
        scheme."""
        self.text = text
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
            raise LocalError(
                f"resource(): {text!r} is not a resource URI: it has no scheme: write {f'data://{text}'!r}"
            )
        pieces = _EXPRESSION.split(text)
        self._query: tuple[str, ...] = ()
        if len(pieces) > 2 and pieces[-1] == "" and _QUERY.fullmatch(pieces[-2]):
            self._query = tuple(pieces[-2][1:].split(","))
            del pieces[-2:]
        self._before = pieces[0]
        self._variables: list[_Variable] = []
        for expression, literal in zip(pieces[1::2], pieces[2::2], strict=True):
            self._add_variable(expression, literal)
        if any("{" in piece or "}" in piece for piece in pieces[::2]):
            raise LocalError(
                f"resource(): {text!r} is not a URI template: add the missing brace of a pair, or write %7B, %7D"
            )
        if len({*self.names}) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise LocalError(f"resource(): {text!r} has the variable {twice!r} twice: rename one")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, in the order of the template."""
        return (*(variable.name for variable in self._variables), *self._query)

    @property
    def optional(self) -> frozenset[str]:
        """The variables that a URI may omit: those of the query."""
        return frozenset(self._query)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables, None if the URI does not match.

        Raises JSONRPCError (invalid params) for a value with path traversal, such as `..`.
        """
        if len(uri) > _MAX_LENGTH:
            return None
        path, _, query = uri.partition("?") if self._query else (uri, "", "")
        if not path.startswith(self._before):
            return None
        values: dict[str, str] = {}
        position = len(self._before)
        for number, variable in enumerate(self._variables):
            last = number == len(self._variables) - 1
            if last:
                end = len(path) - len(variable.after) if path.endswith(variable.after) else -1
            else:
                end = path.find(variable.after, position + 1)
            if end <= position or (not variable.spans and "/" in path[position:end]):
                return None
            values[variable.name] = _decode_safely(path[position:end], variable.spans, uri)
            position = end + len(variable.after)
        return values | self._match_query(query, uri) if position == len(path) else None

    def _match_query(self, query: str, uri: str) -> dict[str, str]:
        """Return the values of the query, which may be paths of files too; they may be empty."""
        assignments = (parameter.partition("=") for parameter in query.split("&") if parameter)
        return {
            name: value and _decode_safely(value.replace("+", " "), True, uri)
            for name, _, value in assignments
            if name in self._query
        }

    def _add_variable(self, expression: str, literal: str) -> None:
        match = _VARIABLE.fullmatch(expression)
        if match is None:
            rule = "supported are {name}, {+name}, {name*}, {/name} and a final {?name,…}"
            raise LocalError(f"resource(): {self.text!r}: {{{expression}}} cannot be matched; {rule}")
        operator, name, star = match.groups()
        if operator == "/":
            self._add_literal("/")
        elif self._variables and self._variables[-1].after == "":
            reason = f"there must be text between {{{expression}}} and the variable before it, such as /"
            raise LocalError(f"resource(): {self.text!r}: {reason}")
        self._variables.append(_Variable(name, operator == "+" or star == "*", literal))

    def _add_literal(self, text: str) -> None:
        if self._variables:
            last = self._variables[-1]
            self._variables[-1] = _Variable(last.name, last.spans, last.after + text)
        else:
            self._before += text


def _decode_safely(raw: str, spans: bool, uri: str) -> str:
    """Return the decoded value. Raises JSONRPCError if it leaves its place in the path, also after further decoding."""
    try:
        value = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise JSONRPCError(INVALID_PARAMS, f"resource not found: {uri[:_MAX_SHOWN]!r} is not UTF-8") from None
    leaves_place = is_absolute(value) if spans else has_separator(value)
    if leaves_place or has_traversal(value) or has_backslash(value):
        raise JSONRPCError(INVALID_PARAMS, f"resource not found: {uri[:_MAX_SHOWN]!r} has path traversal")
    return value
