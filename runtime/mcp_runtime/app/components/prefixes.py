"""The URIs of resources of a mounted app: `scheme://path` is `scheme://prefix/path` outside."""

from __future__ import annotations

import re
from typing import Any, Final

from ...http.urls import is_https_url
from ...protocol.uris import is_same_uri, spelled

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)(.*)", re.DOTALL)


def add_prefix(prefix: str, uri: str) -> str:
    """Return `scheme://path` as `scheme://prefix/path`; https URLs and an empty prefix change nothing."""
    match = None if not prefix or is_https_url(uri) else _SCHEME.fullmatch(uri)
    return uri if match is None else f"{match[1]}{prefix}/{match[2]}"


def strip_prefix(prefix: str, uri: str) -> str | None:
    """Return the URI inside of the mounted app; None if the resource is not one of that app."""
    if not prefix or is_https_url(uri):
        return uri
    match = _SCHEME.fullmatch(uri)
    first, slash, rest = ("", "", "") if match is None else match[2].partition("/")
    if match is None or not slash:
        return None
    if "/" in prefix:
        start = f"{prefix}/"
        return match[1] + match[2][len(start) :] if match[2].startswith(start) else None
    return match[1] + rest if first == prefix or _is_same_segment(first, prefix, match[1].endswith("//")) else None


def _is_same_segment(first: str, second: str, is_host: bool) -> bool:
    """Return True if two texts are spellings of one segment; after `//` a segment is a host, which has no case."""
    first, second = spelled(first), spelled(second)
    return first == second or (is_host and first.lower() == second.lower())


def strip_name_prefix(prefix: str, name: str) -> str | None:
    """Return the name inside of the mounted app; None if it has another prefix."""
    if not prefix:
        return name
    return name[len(prefix) + 1 :] if name.startswith(f"{prefix}_") else None


def with_prefixed_name(prefix: str, definition: Any) -> Any:
    """Return a definition with the name that it has outside of the mounted app."""
    return definition.model_copy(update={"name": f"{prefix}_{definition.name}"}) if prefix else definition


def with_prefixed_uri(result: Any, uri: str, prefixed: str) -> Any:
    """Return the result of a mounted app with the URI of the request."""
    contents: list[Any] | None = getattr(result, "contents", None)
    if contents is None:
        return result
    renamed = [
        content.model_copy(update={"uri": prefixed}) if is_same_uri(content.uri, uri) else content
        for content in contents
    ]
    return result.model_copy(update={"contents": renamed})
