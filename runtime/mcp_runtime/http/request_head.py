"""Request heads: parse the method and the headers of an HTTP request, with a cache for heads that repeat."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from .headers import JSON, METHOD, NAME, PROTOCOL_VERSION, HTTPError, Raw, accepts, decode_value, read_headers
from .origins import OriginPolicy
from .server_rules import RequestHead, ServedRevisions, check_method, request_kind

_MAX_ENTRIES: Final = 1024  # Heads; the oldest one makes room for the next.
_MAX_CACHED_BYTES: Final = 4096  # Longer heads are not cached, so that unauthenticated clients cannot fill the memory.
_LENGTH: Final = b"content-length"
# Credentials, and Transfer-Encoding: whether it is an error depends on Content-Length.
_NOT_CACHED: Final = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"dpop", b"transfer-encoding"))


def parse_request_head(method: str, raw: Raw, policy: OriginPolicy, revisions: ServedRevisions) -> RequestHead:
    """Parse and check the head of a request.

    Args:
        method: The HTTP method.
        raw: The header fields of the ASGI scope, names in lower case.
        policy: The allowed values of Host and Origin.
        revisions: The revisions that the endpoint serves.

    The result has the error to reject the request with, if its head breaks a rule.
    """
    headers = read_headers(raw)
    if isinstance(headers, HTTPError):
        return RequestHead({}, headers, headers)
    origin_error = policy.check(headers)
    version, header_method, name = headers.get(PROTOCOL_VERSION), headers.get(METHOD, ""), headers.get(NAME)
    revision = revisions.stateless.get(version or "")
    return RequestHead(
        {name: text for name, text in headers.items() if name != "content-length"},
        origin_error,
        origin_error or check_method(method, headers, revisions),
        accepts(headers.get("accept"), JSON),
        request_kind(headers, revisions),
        revision,
        version,
        header_method,
        None if name is None else decode_value(name),
        None if revision is None else revision.http.name_params.get(header_method),
    )


class RequestHeadParser:
    """A parser of the heads of requests to one endpoint."""

    def __init__(self, policy: OriginPolicy, revisions: ServedRevisions) -> None:
        """Create a parser; the arguments are those of `parse_request_head`."""
        self._policy = policy
        self._revisions = revisions

    def read(self, method: str, raw: Raw) -> tuple[RequestHead, bytes]:
        """Return the parsed head, and the value of Content-Length, empty if the header is absent."""
        head = parse_request_head(method, raw, self._policy, self._revisions)
        return head, next((value for name, value in raw if name == _LENGTH), b"")


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
        if at >= len(fields) or fields[at][0] != _LENGTH:
            for at, (name, _) in enumerate(fields):  # noqa: B007
                if name == _LENGTH:
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
            head = parse_request_head(method, raw, self._policy, self._revisions)
            size = sum(len(name) + len(value) for name, value in fields)
            if size <= _MAX_CACHED_BYTES and not any(name.lower() in _NOT_CACHED for name, _ in fields):
                if len(self._cache) >= _MAX_ENTRIES:
                    self._cache.popitem(last=False)
                self._cache[key] = head
            else:
                return head, length
        self._last = method, fields, head
        return head, length
