"""Rules of values: what an argument must be, and the message if it is something else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..errors import LocalError
from .texts import unwritable

_SHOWN: Final = 60  # Characters of a value in a message.


class Rule:
    """What an argument must be: a test of a value, and its description, which the message shows."""

    __slots__ = ("accepts", "expected", "is_secret")

    def __init__(self, accepts: Callable[[Any], bool], expected: str, is_secret: bool = False) -> None:
        self.accepts = accepts
        self.expected = expected
        self.is_secret = is_secret  # The message does not show the value.

    def or_none(self) -> Rule:
        """Return the rule that accepts None as well."""
        return Rule(lambda value: value is None or self.accepts(value), f"{self.expected}, or None", self.is_secret)


def check_values(function: str, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Raise LocalError for the first value that breaks the rule of its name."""
    for name, value in values.items():
        if isinstance(value, str):
            check_writable(f"{function}(): {name}", value)
        rule = rules.get(name)
        if rule is not None and not rule.accepts(value):
            reason = "" if rule.is_secret else f"; {shown(value)} is not"
            raise LocalError(f"{function}(): {name} must be {rule.expected}{reason}")


def check_writable(place: str, value: object) -> None:
    """Raise LocalError if a value has a text that JSON cannot express; `place` is what has the value."""
    if (reason := unwritable(value)) is not None:
        raise LocalError(f"{place} cannot be sent: {reason}")


def shown(value: object) -> str:
    """Return a value as messages show it, on one line and shortened."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def is_number(value: object) -> bool:
    """Return True for an int or a float, False for a bool and for NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def is_items(value: object) -> bool:
    """Return True for an iterable of separate items, False for text, bytes and mappings."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def are_texts(value: Any) -> bool:
    """Return True for a list, or another collection, of strings."""
    return is_items(value) and not hasattr(value, "__next__") and all(isinstance(item, str) for item in value)


def _is_host(value: Any) -> bool:
    """Return True for a host name or an IP address without a scheme and a port."""
    if not isinstance(value, str) or re.fullmatch(r"[A-Za-z0-9._:%-]+", value) is None:
        return False
    return not re.search(r"[^:]:\d+$", value) or value.count(":") > 1


def instance(kind: type[Any] | tuple[type[Any], ...], expected: str) -> Rule:
    """Return the rule that a value is an instance of a class."""
    return Rule(lambda value: isinstance(value, kind), expected)


def like(expected: str, *attributes: str) -> Rule:
    """Return the rule that a value is an object with these attributes; a class, which has them too, is not one."""
    return Rule(lambda it: not isinstance(it, type) and all(hasattr(it, name) for name in attributes), expected)


def _is_headers(value: Any) -> bool:
    """Return True for a dict of strings that HTTP can send: a line end would begin another header."""
    if not isinstance(value, Mapping):
        return False
    texts: list[Any] = [*value, *value.values()]  # pyright: ignore[reportUnknownArgumentType]
    return are_texts(texts) and not any(character in text for text in texts for character in "\r\n\0")


HEADERS: Final = Rule(_is_headers, 'a dict of strings without line ends, such as {"x-id": "5"}', is_secret=True)
TEXT: Final = instance(str, "a string")
NAME: Final = Rule(lambda value: isinstance(value, str) and bool(value.strip()), "a string that is not empty")
FLAG: Final = instance(bool, "True or False")
COUNT: Final = Rule(lambda value: type(value) is int and value > 0, "a whole number from 1")
SECONDS: Final = Rule(lambda value: is_number(value) and value > 0, "a number of seconds above 0")
HOST: Final = Rule(_is_host, 'an address without scheme and port, such as "0.0.0.0"')
PORT: Final = Rule(lambda value: type(value) is int and 0 <= value <= 65535, "a whole number from 0 to 65535")
MAPPING: Final = instance(Mapping, "a dict")
FUNCTION: Final = Rule(callable, "a function")


# Variables of the environment: one that is empty is as one that is not set, and a wrong value is an error.

_NUMBER: Final = Rule(lambda text: re.fullmatch("[0-9]{1,9}", text) is not None, "a whole number from 0, such as 4")
_SWITCH: Final = Rule(("0", "1").__contains__, "0 or 1")

PROCESSES: Final = "WEB_CONCURRENCY"  # How many processes uvicorn and gunicorn start for an application.
FAST_PATHS: Final = "MCP_FAST_PATHS"
BUSY_POLL: Final = "MCP_BUSY_POLL"
STDIO: Final = "MCP_STDIO"
_OWN: Final[Mapping[str, Rule]] = {
    FAST_PATHS: _SWITCH,
    BUSY_POLL: _SWITCH,
    STDIO: Rule("threads".__eq__, "threads, or removed"),
}
_RULES: Final[Mapping[str, Rule]] = {**_OWN, PROCESSES: _NUMBER}


def variable_text(name: str) -> str | None:
    """Return the value of a variable, without spaces around it; None if it is not set, or empty.

    Raises LocalError, which names the variable, its value and the rule, for one that breaks its rule.
    """
    text, rule = os.environ.get(name, "").strip(), _RULES[name]
    if text and not rule.accepts(text):
        raise LocalError(f"the environment variable {name} must be {rule.expected}; {shown(text)} is not")
    return text or None


def number_variable(name: str) -> int | None:
    """Return the whole number of a variable; None if it is not set, or empty. Raises LocalError for another value."""
    text = variable_text(name)
    return None if text is None else int(text)


def is_switched_on(name: str) -> bool:
    """Return True unless a variable is 0. It is read by an import, which raises nothing: `check_variables` refuses
    other values."""
    return os.environ.get(name, "").strip() != "0"


def check_variables() -> None:
    """Raise LocalError for a wrong value of a variable of this package; servers and clients call it when they begin."""
    for name in _OWN:
        variable_text(name)
