"""Roots of a client go in: whether they may be told, whether a path is inside of one, and what is remembered of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..errors import InvalidMessageError
from ..protocol.paths import has_traversal

_log: Final = logging.getLogger(__name__)


def check_root(uri: str) -> str:
    """The path of a root. Raises InvalidMessageError for what is no local `file://` URI, and for one that leads elsewhere,
    such as `..` in any encoding."""
    try:
        parts = urlsplit(uri)
    except ValueError as fault:
        raise InvalidMessageError(f"the root {uri!r} is not a URI: {fault}") from None
    if parts.scheme != "file" or not uri.lower().startswith("file:///"):
        raise InvalidMessageError(f"the root {uri!r} is not a local file:// URI")
    if parts.query or parts.fragment:
        raise InvalidMessageError(f"the root {uri!r} has more than a path")
    path = unquote(parts.path)
    if has_traversal(path):
        raise InvalidMessageError(f"the root {uri!r} has path traversal")
    return path


def path_to_root(path: str) -> str:
    """The URI of a directory or a file, to be told as a root. Raises InvalidMessageError where it cannot be read."""
    from pathlib import Path

    try:
        real = os.path.realpath(path)
        is_there = os.access(real, os.R_OK | os.X_OK if os.path.isdir(real) else os.R_OK)
    except (OSError, ValueError) as fault:
        raise InvalidMessageError(f"{path!r} cannot be a root: {fault}") from None
    if not is_there:
        raise InvalidMessageError(f"{path!r} cannot be a root: it is not there, or cannot be read")
    check_root(uri := Path(real).as_uri())
    return uri


def readable_roots(paths: Iterable[str]) -> list[str]:
    """The URIs of those of the paths that are there and can be read now, to be told as roots: for each asking anew."""
    found: list[str] = []
    for path in paths:
        try:
            found.append(path_to_root(path))
        except InvalidMessageError as fault:
            _log.debug("%s", fault)
    return found


def is_within(path: str, roots: Iterable[Any]) -> bool:
    """Whether a path, all symbolic links followed, is inside of one of the roots that a client has told."""
    real = os.path.realpath(path)
    for root in roots:
        try:
            top = os.path.realpath(check_root(root.uri))
        except InvalidMessageError:
            continue
        if os.path.commonpath([real, top]) == top:
            return True
    return False
