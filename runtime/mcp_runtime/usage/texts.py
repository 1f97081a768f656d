"""Texts of peers as records, logs and errors have them: they have a size, whatever a peer sends."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

MAX_CHARACTERS: Final = 200  # Of a name.
_MAX_ERROR: Final = 1000  # Of an error, which may repeat what a peer has sent.
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_PLAIN: Final = (int, bool, type(None))
_MAX_DEPTH: Final = 100
_MAX_VALUES: Final = 100_000
_SURROGATES: Final = (0xD800, 0xDFFF)


def shortened(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return a text, or the beginning of a long one with a mark that names its length."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def error_text(error: BaseException) -> str:
    """Return an exception as text, shortened if it is long."""
    return shortened(str(error), _MAX_ERROR)


def quoted(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return a text as messages quote it, shortened if it is long."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}… ({len(text):,} characters)"


# Text of others that is written to a terminal, which obeys some characters: titles, links, the direction of text.


def plain(text: str) -> str:
    """Return text in which each character that is not printable is escaped."""
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def coloured(text: str) -> str:
    """Return text in which such characters are escaped, but for tabs and for those that choose a colour."""
    if text.isprintable():
        return text
    parts = _COLOUR.split(text)
    parts[::2] = ("\t".join(map(plain, part.split("\t"))) for part in parts[::2])
    return "".join(parts) + ("\x1b[0m" if len(parts) > 1 else "")


# What cannot be written as JSON: where it stands in a value, why, and what to write instead.
#
# This is looked for only when a value could not be written.


def is_unicode(text: str) -> bool:
    """Return False for text with half of a surrogate pair, which UTF-8 does not have."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped(text: str) -> str:
    """Return text with each half of a surrogate pair escaped, as Python writes it in a literal."""
    return text.encode(errors="backslashreplace").decode()


def text_problem(text: str) -> str | None:
    """Return why a text cannot be written, and the remedy; None if it can."""
    if is_unicode(text):
        return None
    at, code = next((at, ord(one)) for at, one in enumerate(text) if _SURROGATES[0] <= ord(one) <= _SURROGATES[1])
    return (
        f"the character {at} is U+{code:04X}, half of a surrogate pair, which UTF-8 does not have: "
        'write text.encode(errors="replace").decode()'
    )


def unwritable(value: object, is_known: Any = None) -> str | None:
    """Return the place of the first part of a value that JSON cannot express, with the reason and the remedy; None if
    there is none.

    Args:
        value: The value: models, dataclasses, collections and what they contain.
        is_known: Called with a value of another class; True if it can be written. Without it, all of them can.
    """
    for number, (place, item) in enumerate(_parts(value, "", 0)):
        reason = _reason(item, is_known)
        if reason is not None:
            return f"{place.removeprefix('.')}: {reason}" if place else reason
        if number > _MAX_VALUES:
            break
    return None


def _reason(item: Any, is_known: Any) -> str | None:
    if isinstance(item, str):
        return text_problem(str.__str__(item))
    if isinstance(item, (bytes, bytearray, memoryview)):
        return _bytes_problem(bytes(item))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(item, float):
        return None if math.isfinite(item) else "JSON has no number NaN or infinity"
    if is_known is None or is_known(item):
        return None
    return (
        f"a value of the type {type(item).__qualname__!r} has no form in JSON: return text, a JSON type, a model or a "
        "dataclass"
    )


def _bytes_problem(data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return (
            f"bytes that are not UTF-8 text (byte {error.start}) have no form in JSON: return File(data=…), "
            "Image(data=…) or Audio(data=…), or encode them in base64"
        )
    return None


def _parts(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what a value consists of, with the place of each part."""
    if depth > _MAX_DEPTH or isinstance(value, _PLAIN):
        return
    if isinstance(value, (str, bytes, bytearray, memoryview, float)):
        yield place, value
        return
    members = _members(value)
    if members is None:
        yield place, value
        return
    for name, item in members:
        is_text = isinstance(name, str)
        if is_text and not is_unicode(name):
            yield f"{place}.{escaped(name)}", name
        inner = f"[{name}]" if isinstance(name, int) else f".{escaped(name if is_text else str(name))}"
        yield from _parts(item, place + inner, depth + 1)


def _members(value: object) -> Iterator[tuple[Any, Any]] | None:
    """Return the names and values of what a value contains; None if it contains nothing."""
    kind = cast(Any, type(value))
    items: Any = value
    if issubclass(kind, Mapping):
        return iter([*items.items()])
    if issubclass(kind, (list, tuple, set, frozenset)):
        return enumerate(items)
    fields: Any = getattr(kind, "__pydantic_fields__", None)
    if fields is not None:
        own = vars(value)  # Not `getattr`: a field may be deprecated.
        named = [(getattr(field, "alias", None) or name, own.get(name)) for name, field in fields.items()]
        extra: Any = getattr(value, "__pydantic_extra__", None) or {}
        return iter([*named, *extra.items()])
    if dataclasses.is_dataclass(kind):
        return iter([(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(kind)])
    return None
