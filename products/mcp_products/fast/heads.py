"""Heads of requests that a client has sent before: they are not parsed again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mcp_runtime.http.headers import Raw
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.http.server_rules import LENGTH, RequestHead, RequestHeadParser, ServedRevisions

_MAX_ENTRIES: Final = 1024  # Heads; the oldest one makes room for the next.
_MAX_CACHED_BYTES: Final = 4096  # Longer heads are not cached, so that unauthenticated clients cannot fill the memory.
# Credentials, and Transfer-Encoding: whether it is an error depends on Content-Length.
_NOT_CACHED: Final = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"dpop", b"transfer-encoding"))


class CachedRequestHeadParser(RequestHeadParser):
    """A parser with a cache for the requests to one endpoint: clients send the same head in most requests.

    Heads with credentials (Authorization, Cookie, Proxy-Authorization, DPoP) are never cached, so that no secret stays
    in memory longer than its request. Content-Length is not part of a cached head.
    """

    def __init__(self, policy: OriginPolicy, revisions: ServedRevisions) -> None:
        """Create a parser; the arguments are those of `parse_request_head`."""
        super().__init__(policy, revisions)
        self._cache: OrderedDict[object, RequestHead] = OrderedDict()
        self._last: tuple[str, list[tuple[bytes, bytes]], RequestHead] | None = (
            None  # The previous head: compared first, because most requests repeat it.
        )
        self._length_at = 0  # The index of Content-Length in the previous head: most clients send a fixed order.

    def read(self, method: str, raw: Raw) -> tuple[RequestHead, bytes]:
        """Return the parsed head, and the value of Content-Length, empty if the header is absent."""
        fields, at, length = list(raw), self._length_at, b""
        if at >= len(fields) or fields[at][0] != LENGTH:
            for at, (name, _) in enumerate(fields):  # noqa: B007
                if name == LENGTH:
                    break
            else:
                at = -1
            self._length_at = max(at, 0)
        if at >= 0:
            length = fields.pop(at)[1]
        if (last := self._last) is not None and fields == last[1] and method == last[0]:
            return last[2], length
        key = (method, *fields)
        try:
            head = self._cache.get(key)
        except TypeError:  # Some ASGI servers pass lists instead of tuples, which are not hashable.
            return self.read(method, [(name, value) for name, value in raw])
        if head is None:
            head, _ = super().read(method, raw)
            size = sum(len(name) + len(value) for name, value in fields)
            if size <= _MAX_CACHED_BYTES and not any(name.lower() in _NOT_CACHED for name, _ in fields):
                if len(self._cache) >= _MAX_ENTRIES:
                    self._cache.popitem(last=False)
                self._cache[key] = head
            else:
                return head, length
        self._last = method, fields, head
        return head, length
