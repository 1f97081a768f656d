"""The values of TypeScript literals, read from the syntax tree as ECMAScript defines them."""

from __future__ import annotations

import re
from typing import Final

from tree_sitter import Node

Value = str | int | float | bool | None

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_CODE_POINT: Final = re.compile(r"\\u\{([0-9A-Fa-f]+)\}|\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})")
_PREFIXES: Final = {"0x": 16, "0o": 8, "0b": 2}
_WRAPPERS: Final = ("as_expression", "satisfies_expression", "parenthesized_expression", "literal_type")
_MAX_INTEGER: Final = (1 << 53) - 1  # Number.MAX_SAFE_INTEGER


class NoLiteralError(ValueError):
    """The node is no literal with a value in JSON. The argument names the construct, and what to write instead."""


def literal_value(node: Node) -> Value:
    """Return the value of a string, number, boolean or `null`, with or without `as const`. Raises NoLiteralError."""
    match node.type:
        case "string":
            return _string(node)
        case "template_string":
            return _template(node)
        case "number":
            return _number(_text(node))
        case "unary_expression":
            return _signed(node)
        case "true" | "false":
            return node.type == "true"
        case "null":
            return None
        case "undefined":
            raise NoLiteralError("`undefined` is no JSON value; write `name?: T` for a property that may be missing")
        case kind if kind in _WRAPPERS:
            inner = [child for child in node.named_children if child.type != "comment"]
            if inner:
                return literal_value(inner[0])
        case _:
            pass
    raise NoLiteralError(f"{_shown(node)} is no literal; write a string, an integer, a boolean or `null`")


def _string(node: Node) -> str:
    parts = [_escape(_text(part)) if part.type == "escape_sequence" else _text(part) for part in node.named_children]
    return _whole("".join(parts), node)


def _template(node: Node) -> str:
    if any(part.type == "template_substitution" for part in node.named_children):
        raise NoLiteralError(f"{_shown(node)} has a substitution; write the text that it gives as a string")
    parts: list[str] = []
    text, start = node.text or b"", node.start_byte
    at = 1
    for part in node.named_children:
        if part.type == "escape_sequence":
            parts += [text[at : part.start_byte - start].decode(), _escape(_text(part))]
            at = part.end_byte - start
    return _whole("".join([*parts, text[at:-1].decode()]), node)


def _escape(written: str) -> str:
    match = _CODE_POINT.fullmatch(written)
    if match is not None:
        number = int(match[1] or match[2] or match[3], 16)
        if number > 0x10FFFF:
            raise NoLiteralError(f"{written} is no Unicode character; correct the escape sequence")
        return chr(number)
    after = written[1:]
    return "" if after in ("\n", "\r\n", "\r") else _ESCAPES.get(after, after)


def _whole(text: str, node: Node) -> str:
    """Return the text with its surrogate pairs joined."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise NoLiteralError(f"{_shown(node)} has half of a surrogate pair; write the whole character") from None


def _number(written: str) -> int | float:
    plain = written.replace("_", "").lower()
    if plain.endswith("n"):
        raise NoLiteralError(f"{written} is a bigint, which JSON has not; write {plain[:-1]}")
    try:
        base = _PREFIXES.get(plain[:2])
        number = int(plain[2:], base) if base is not None else float(plain)
        if abs(number) > _MAX_INTEGER or number != int(number):
            return float(number)
        return int(number)
    except (ValueError, OverflowError):
        raise NoLiteralError(f"{written[:40]} is no number; write a decimal number") from None


def _signed(node: Node) -> int | float:
    operator, operand = node.child_by_field_name("operator"), node.child_by_field_name("argument")
    sign = {"-": -1, "+": 1}.get(_text(operator) if operator is not None else "")
    value = literal_value(operand) if operand is not None and operand.type == "number" else None
    if sign is None or not isinstance(value, (int, float)):
        raise NoLiteralError(f"{_shown(node)} is no literal; write its value")
    return sign * value


def _shown(node: Node) -> str:
    text = " ".join(_text(node).split())
    return f"`{text if len(text) <= 60 else text[:57] + '…'}`"


def _text(node: Node) -> str:
    return (node.text or b"").decode()
