"""The keyword `uniqueItems`, in linear time.

The validator's own way compares all items that have the same hash, and the hash of lists and of large integers is easy
to predict. Here the items are compared by text, whose hash depends on a secret of the process.
"""

from __future__ import annotations

from typing import Any, Final

from ..protocol.models import is_list, is_object

_MAX_SHOWN: Final = 20  # Items of a list in a message.


class UniqueItems:
    """The check of one `uniqueItems`, as the validator calls it."""

    def __init__(self, parent: object, value: object, path: object) -> None:
        """Create the check; it accepts all lists if the value is False."""
        self._is_required = value is True

    def validate(self, instance: Any) -> None:
        """Raise ValueError for a list with two equal items."""
        if self._is_required and is_list(instance) and has_duplicates(instance):
            rest = "…" if len(instance) > _MAX_SHOWN else ""
            raise ValueError(f"{instance[:_MAX_SHOWN]}{rest} has non-unique elements")


def has_duplicates(items: list[Any]) -> bool:
    """Return True if two items are equal: 1 and 1.0 are, and objects with the same members in any order."""
    seen: set[str] = set()
    for item in items:
        if isinstance(item, str):
            text = f'"{item}'
        else:
            pieces: list[str] = []
            _write(item, pieces)
            text = "".join(pieces)
        if text in seen:
            return True
        seen.add(text)
    return False


def _write(value: Any, pieces: list[str]) -> None:
    """Append a text that is the same for equal values only. The length of a string tells where it ends."""
    if isinstance(value, str):
        pieces.append(f'{len(value)}"{value}')
    elif is_list(value):
        pieces.append(f"[{len(value)}:")
        for item in value:
            _write(item, pieces)
    elif is_object(value):
        pieces.append(f"{{{len(value)}:")
        for name in sorted(value):
            pieces.append(f'{len(name)}"{name}')
            _write(value[name], pieces)
    elif isinstance(value, float) and not value.is_integer():
        pieces.append(f"{value!r};")
    elif value is None or isinstance(value, bool):
        pieces.append(f"{value};")
    else:
        pieces.append(f"{int(value):x};")  # Hexadecimal digits take linear time, decimal ones do not.
