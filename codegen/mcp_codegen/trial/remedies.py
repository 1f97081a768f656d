"""What to write so that a conversation of a trial goes on, by the text of what stopped it."""

from __future__ import annotations

import re
from typing import Final

AGAIN: Final = "correct the schema there, or try again on a machine that does less"
# The rule that stopped a conversion, in the text of its error: from, to, what it did, and where.
_RULE: Final = re.compile(r"([\w.-]+) → ([\w.-]+): .*?\b(require|refuse|misfit|first|null|few|method) ([\w./*-]+)")
_UNHANDLED: Final = re.compile(r"no method '([\w./-]+)' is served here")
_UNREAD: Final = re.compile(r"the runtime reads '(\w+)'")
_UNFILLED: Final = re.compile(r"([\w./@-]+): Field required")
_REMEDIES: Final = {
    "require": "write a row of [[rename]] or [[default]] for {place} in schema/conversions.toml",
    "method": "write a row of [[rename]] or [[method]] with method = '{place}' in schema/conversions.toml",
}
_REMEDY: Final = "write a row for {place} in schema/conversions.toml"
# What else a text tells, and the sentence about the name in it.
_OTHERS: Final = (
    (_UNHANDLED, _REMEDIES["method"]),
    (
        _UNREAD,
        "write a row of [[rename]] in schema/conversions.toml with the name that {place} has now, or adapt the "
        "runtime",
    ),
    (
        _UNFILLED,
        "write a row of [[default]] in schema/overlay.toml with the value of {place}, a row of [[rename]] in "
        "schema/conversions.toml if it is a new name, or adapt the runtime, which sends this",
    ),
)
_ANYTHING: Final = (
    "write a row of [[rename]] in schema/conversions.toml for what has another name now, or adapt the runtime"
)


def rule_of(text: str) -> str:
    """Return the rule of a conversion that a text names, such as `require Tool.risk`; an empty text without one."""
    rule = _RULE.search(text)
    return "" if rule is None else f"{rule[3]} {rule[4]}"


def remedy(text: str) -> str:
    """Return what to write so that a conversation goes on, in a sentence without a full stop."""
    rule = _RULE.search(text)
    if rule is not None:
        return _REMEDIES.get(rule[3], _REMEDY).format(place=rule[4])
    found = ((pattern.search(text), sentence) for pattern, sentence in _OTHERS)
    return next((sentence.format(place=match[1]) for match, sentence in found if match is not None), _ANYTHING)
