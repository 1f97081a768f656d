"""OAuth scopes (https://www.rfc-editor.org/rfc/rfc6749#section-3.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ..errors import LocalError

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return scopes without duplicates. Raises LocalError for an invalid scope."""
    unique = tuple(dict.fromkeys(scopes))
    for scope in unique:
        if not _SCOPE.fullmatch(scope):
            rule = "a scope has visible ASCII characters other than quotation mark and backslash"
            remedy = f": write scopes={scope.split()}" if " " in scope else ""
            raise LocalError(f"scopes: {scope!r} is not a valid scope: {rule}{remedy}")
    return unique
