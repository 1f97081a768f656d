"""URIs: what is one, and which are the same (RFC 3986, section 6; RFC 3987).

Two that differ in nothing but their spelling name the same resource:

| spelling                                             | compared as                                                 |
|------------------------------------------------------|-------------------------------------------------------------|
| `Note://Host/x`                                      | `note://host/x`: scheme and host have no case               |
| `%c3%a9`, `é`                                        | `%C3%A9`: letters outside of ASCII are UTF-8                |
| `%61`, `%7E`                                         | `a`, `~`: characters that need no encoding are decoded      |
| a space, `"`, `{` and others that no URI has         | percent-encoded; a `%` that encodes nothing is `%25`        |
| `/a/./b/../c`                                        | `/a/c`, in a path that begins with a slash                  |
| `http://host:80`, `https://host:443`, `host:`        | without the port                                            |
| `data://host`                                        | `data://host/`: an authority with an empty path             |
| `#part`                                              | names a part of the resource: it is apart                   |

Nothing else is equal: reserved characters such as `%2F` and `/` are not, nor are `+` and `%20`, nor `x?` and `x`.
Values of URI templates are never changed by this: only what the template itself spells out is compared so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

# Path safety: find path traversal in percent-encoded paths, including paths that are encoded more than once.

_MAX_DECODINGS: Final = 2  # A receiver may decode a path once more than it should, rarely twice.
_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_HARMLESS: Final = re.compile(r"[^%/\\.:\0]+")
_ROOT: Final = re.compile(r"(?:[A-Za-z]:)?[/\\]")

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<rest>#.*)?",
    re.DOTALL,
)
_TO_SPELL: Final = re.compile(r"%([0-9A-Fa-f]{2})|[^!#$&-;=?-\[\]_a-z~]")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
# RFC 3986; letters outside of ASCII, which IRIs have, are tolerated.
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f<>\"{}|\\^`]*")
_TO_ENCODE: Final = re.compile(r"[^\S\x00-\x1f]|[<>\"|\\^`]")
_KEPT: Final = 1024  # Characters up to which the form of a URI is kept for the next comparison.


def has_traversal(path: str) -> bool:
    """Return True if the path, or one of its decodings, has a `.` or `..` segment or a NUL character."""
    return any(
        "\0" in text or any(segment.strip() in (".", "..") for segment in _SEPARATOR.split(text))
        for text in _decodings(path)
    )


def has_separator(text: str) -> bool:
    """Return True if the text, or one of its decodings, has a slash or a backslash."""
    return any(_SEPARATOR.search(decoded) for decoded in _decodings(text))


def is_absolute(path: str) -> bool:
    """Return True if the path, or one of its decodings, starts with a separator or a drive, or is empty."""
    return any(_DRIVE.match(text) or _SEPARATOR.split(text, maxsplit=1)[0] == "" for text in _decodings(path))


def leaves_directory(value: str, spans: bool) -> bool:
    """Return True if a value, or one of its decodings, would lead out of the directory that it is joined to.

    That is a value with a `.` or `..` segment, a NUL character, or the root of a file system. A value that may span
    several segments (`spans`) is a path: it may not be empty either, and may not have a drive.
    """
    if value and _HARMLESS.fullmatch(value):
        return False
    return has_traversal(value) or (is_absolute(value) if spans else any(map(_ROOT.match, _decodings(value))))


def _decodings(text: str) -> Iterator[str]:
    """Yield the text and its repeated percent-decodings."""
    yield text
    for _ in range(_MAX_DECODINGS):
        text = unquote(text)
        yield text


def is_uri(text: str) -> bool:
    """Return True for a URI (RFC 3986), also with letters outside of ASCII."""
    return _URI.fullmatch(text) is not None


def encoded_uri(text: str) -> str:
    """Return a URI or URI template, in which spaces and other characters that no URI has are percent-encoded."""
    return _TO_ENCODE.sub(lambda match: quote(match[0]), text)


def spelled(text: str) -> str:
    """Return a URI, or a part of one, in which each character is spelled in the one normal way; its case stays."""
    return _TO_SPELL.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    encoded: str | None = match[1]
    if encoded is None:
        return quote(match[0], safe="", errors="surrogatepass")
    character = chr(int(encoded, 16))
    return character if character in _UNRESERVED else match[0].upper()


def uri_key(uri: str) -> str:
    """Return the form of a URI that all of its spellings have, without its fragment."""
    return (_cached_key if len(uri) <= _KEPT else _key)(uri).partition("#")[0]


def uri_key_with_fragment(uri: str) -> str:
    """Return the form of a URI that all of its spellings have, with its fragment."""
    return (_cached_key if len(uri) <= _KEPT else _key)(uri)


def is_same_uri(first: str, second: str) -> bool:
    """Return True if two URIs are spellings of one, or of the resource that one of them names a part of."""
    if first == second:
        return True
    first, second = uri_key_with_fragment(first), uri_key_with_fragment(second)
    return first == second or (("#" in first) != ("#" in second) and uri_key(first) == uri_key(second))


def find_uri(uri: str, uris: Iterable[str]) -> str | None:
    """Return that of the URIs which is the same as `uri`: equal, else in another spelling, else without a fragment."""
    listed = list(uris)
    if uri in listed:
        return uri
    for key_of in (uri_key_with_fragment, uri_key):
        key = key_of(uri)
        for other in listed:
            if uri_key_with_fragment(other) == key:
                return other
    return None


def tidy_uri(uri: str, *, folds_host: bool = False) -> str:
    """Return a URI with its scheme in lower case and all characters spelled in the normal way, and nothing left out.

    `folds_host` writes the host in lower case as well, and leaves out a port that its scheme has by default.
    """
    return (_cached_tidy if len(uri) <= _KEPT else _tidy)(uri, folds_host)


def _tidy(uri: str, folds_host: bool) -> str:
    scheme, separator, rest = uri.partition(":")
    if not separator or not _SCHEME.fullmatch(scheme):
        return spelled(uri)
    rest = spelled(rest)
    if folds_host and rest.startswith("//"):
        end = next((index for index in range(2, len(rest)) if rest[index] in "/?#"), len(rest))
        rest = f"//{_authority(scheme.lower(), rest[2:end])}{rest[end:]}"
    return f"{scheme.lower()}{separator}{rest}"


_cached_tidy = lru_cache(maxsize=128)(_tidy)


def _key(uri: str) -> str:
    match = _PARTS.fullmatch(uri)
    if match is None:
        return spelled(uri)
    scheme, authority, path = match["scheme"].lower(), match["authority"], spelled(match["path"])
    if path.startswith("/"):
        path = _without_dot_segments(path)
    start = f"{scheme}:"
    if authority is not None:
        authority = _authority(scheme, spelled(authority))
        start += f"//{authority}"
        path = path or ("/" if authority else "")
    return f"{start}{path}{spelled(match['query'] or '')}{spelled(match['rest'] or '')}"


_cached_key = lru_cache(maxsize=512)(_key)


def _authority(scheme: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    name, colon, port = host.rpartition(":")
    has_port = colon and name and (":" not in name or name.endswith("]"))
    if has_port and port in ("", _PORTS.get(scheme)):
        host = name
    if scheme in _PORTS and "%" in host:  # Names of hosts have a form of their own for letters outside of ASCII.
        with suppress(UnicodeError):
            host = unquote(host, errors="strict").encode("idna").decode()
    return user + at + re.sub(r"%[0-9a-f]{2}", lambda match: match[0].upper(), host.lower())


def _without_dot_segments(path: str) -> str:
    """Return an absolute path without `.` and `..` (RFC 3986, section 5.2.4)."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
