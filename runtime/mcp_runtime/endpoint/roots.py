"""Roots of a client: checks of their URIs, and of paths that should be within a root.

MCP specification, https://modelcontextprotocol.io/specification/draft/client/roots
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..errors import InvalidMessageError
from ..protocol.paths import has_traversal

_log: Final = logging.getLogger(__name__)
_OTHER_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://[^\s]")


def check_root(uri: str) -> str:
    """Return the path of a root's URI.

    Raises InvalidMessageError unless it is a local `file://` URI without path traversal, such as an encoded `..`.
    """
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidMessageError(f"the root {uri!r} is not a URI: {error}") from None
    is_local = uri.lower().startswith("file:///") or parts.netloc.lower() == "localhost"  # RFC 8089, section 2.
    if parts.scheme != "file" or not is_local:
        raise InvalidMessageError(f"the root {uri!r} is not a local file:// URI")
    if parts.query or parts.fragment:
        raise InvalidMessageError(f"the root {uri!r} has more than a path")
    path = unquote(parts.path)
    if has_traversal(path):
        raise InvalidMessageError(f"the root {uri!r} has path traversal")
    return path


def listed_roots(roots: list[Any]) -> list[Any]:
    """Return the roots that may be sent.

    The specification has only `file://` URIs, and servers reject a whole list with another one: roots with another
    scheme, such as https, are left out with a warning. Raises InvalidMessageError for a text that is no URI, and for a
    `file://` URI that `check_root` rejects.
    """
    listed: list[Any] = []
    for root in roots:
        if (other := _OTHER_SCHEME.match(root.uri)) and other[1].lower() != "file":
            _log.warning("the root %r is left out: the specification has only file:// roots", root.uri[:200])
            continue
        check_root(root.uri)
        listed.append(root)
    return listed


def path_to_root(path: str) -> str:
    """Return the URI of a folder or a file, for a list of roots. Raises InvalidMessageError if it is not readable."""
    from pathlib import Path

    try:
        real = os.path.realpath(path)
        is_readable = os.access(real, os.R_OK | os.X_OK if os.path.isdir(real) else os.R_OK)
    except (OSError, ValueError) as error:
        raise InvalidMessageError(f"{path!r} cannot be a root: {error}") from None
    if not is_readable:
        raise InvalidMessageError(f"{path!r} cannot be a root: it does not exist, or is not readable")
    check_root(uri := Path(real).as_uri())
    return uri


def readable_roots(paths: Iterable[str]) -> list[str]:
    """Return the URIs of those paths that exist and are readable now."""
    uris: list[str] = []
    for path in paths:
        try:
            uris.append(path_to_root(path))
        except InvalidMessageError as error:
            _log.debug("%s", error)
    return uris


def is_within(path: str, roots: Iterable[Any]) -> bool:
    """Return True if a path is within one of a client's roots. Symbolic links are resolved.

    Args:
        path: The path to check.
        roots: The roots, as the client sent them; invalid ones are ignored.
    """
    real = os.path.realpath(path)
    for root in roots:
        try:
            root_path = os.path.realpath(check_root(root.uri))
        except InvalidMessageError:
            continue
        if os.path.commonpath([real, root_path]) == root_path:
            return True
    return False
