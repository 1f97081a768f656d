"""The head of a request goes in; what it says and what is wrong with it comes out, read once for heads that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .headers import (
    JSON,
    METHOD,
    NAME,
    PROTOCOL_VERSION,
    HTTPError,
    accepts,
    decode_value,
    read_headers,
)
from .origins import OriginPolicy
from .server_rules import RequestHead, ServedRevisions, check_method, request_kind

Raw = Sequence[tuple[bytes, bytes]]

_MAX_ENTRIES: Final = 1024  # Heads that are remembered; then all are forgotten.
_MAX_CACHED_BYTES: Final = 4096  # Bytes of a head that is remembered, so that a stranger's long ones take no memory.
_LENGTH: Final = b"content-length"
_CREDENTIAL_HEADERS: Final = (
    "authorization",
    "cookie",
    "proxy-authorization",
    "dpop",
)  # Not kept longer than a request lasts.


class CachedRequestHeadParser:
    """The heads of the requests to one endpoint."""

    def __init__(self, policy: OriginPolicy, revisions: ServedRevisions) -> None:
        self._policy = policy
        self._revisions = revisions
        self._cache: dict[object, RequestHead] = {}
        self._last: tuple[str, list[tuple[bytes, bytes]], RequestHead] | None = None  # Often the next one is the same.
        self._length_at = 0  # Where in a head the length stood last: the heads of one client are alike.

    def read(self, method: str, raw: Raw) -> tuple[RequestHead, bytes]:
        """What a head says, and the length of the body apart, nothing where it is not said: a client sends the same head
        again and again, but for that."""
        fields, at, length = list(raw), self._length_at, b""
        if at >= len(fields) or fields[at][0] != _LENGTH:
            at = next((at for at, (name, _) in enumerate(fields) if name == _LENGTH), -1)
            self._length_at = max(at, 0)
        if at >= 0:
            length = fields.pop(at)[1]
        if (last := self._last) is not None and fields == last[1] and method == last[0]:
            return last[2], length
        key = (method, *fields)
        try:
            head = self._cache.get(key)
        except TypeError:  # Some who call ASGI applications have lists for pairs.
            return self.read(method, [(name, value) for name, value in raw])
        if head is None:
            head = self._read(method, raw)
            size = sum(len(name) + len(value) for name, value in fields)
            if size <= _MAX_CACHED_BYTES and not any(name in head.headers for name in _CREDENTIAL_HEADERS):
                if len(self._cache) >= _MAX_ENTRIES:
                    self._cache.clear()
                self._cache[key] = head
            else:
                return head, length
        self._last = method, fields, head
        return head, length

    def _read(self, method: str, raw: Raw) -> RequestHead:
        headers = read_headers(raw)
        if isinstance(headers, HTTPError):
            return RequestHead({}, headers, None)
        stranger = self._policy.check(headers)
        turned = stranger or check_method(method, headers, self._revisions)
        version, named, name = headers.get(PROTOCOL_VERSION), headers.get(METHOD, ""), headers.get(NAME)
        revision = self._revisions.stateless.get(version or "")
        return RequestHead(
            {name: text for name, text in headers.items() if name != "content-length"},
            stranger,
            turned,
            accepts(headers.get("accept"), JSON),
            request_kind(headers, self._revisions),
            revision,
            version,
            named,
            None if name is None else decode_value(name),
            None if revision is None else revision.http.name_params.get(named),
        )
