"""The head of a request goes in; what it says and what is wrong with it comes out, read once for heads that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .headers import JSON, METHOD, NAME, VERSION, Turned, accepts, decode_value, read_headers
from .origins import Origins
from .rules import Head, Spoken, check_method, way_of

Raw = Sequence[tuple[bytes, bytes]]

_KEPT: Final = 1024  # Heads that are remembered; then all are forgotten.
_LARGEST: Final = 4096  # Bytes of a head that is remembered, so that a stranger's long ones take no memory.
_LENGTH: Final = b"content-length"
_SECRET: Final = ("authorization", "cookie", "proxy-authorization", "dpop")  # Not kept longer than a request lasts.


class Heads:
    """The heads of the requests to one endpoint."""

    def __init__(self, origins: Origins, spoken: Spoken) -> None:
        self._origins = origins
        self._spoken = spoken
        self._seen: dict[object, Head] = {}
        self._last: tuple[str, list[tuple[bytes, bytes]], Head] | None = None  # Often the next one is the same.
        self._length_at = 0  # Where in a head the length stood last: the heads of one client are alike.

    def read(self, method: str, raw: Raw) -> tuple[Head, bytes]:
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
            head = self._seen.get(key)
        except TypeError:  # Some who call ASGI applications have lists for pairs.
            return self.read(method, [(name, value) for name, value in raw])
        if head is None:
            head = self._read(method, raw)
            size = sum(len(name) + len(value) for name, value in fields)
            if size <= _LARGEST and not any(name in head.headers for name in _SECRET):
                if len(self._seen) >= _KEPT:
                    self._seen.clear()
                self._seen[key] = head
            else:
                return head, length
        self._last = method, fields, head
        return head, length

    def _read(self, method: str, raw: Raw) -> Head:
        headers = read_headers(raw)
        if isinstance(headers, Turned):
            return Head({}, headers, None)
        stranger = self._origins.check(headers)
        turned = stranger or check_method(method, headers, self._spoken)
        version, named, name = headers.get(VERSION), headers.get(METHOD, ""), headers.get(NAME)
        revision = self._spoken.stateless.get(version or "")
        return Head(
            {name: text for name, text in headers.items() if name != "content-length"},
            stranger,
            turned,
            accepts(headers.get("accept"), JSON),
            way_of(headers, self._spoken),
            revision,
            version,
            named,
            None if name is None else decode_value(name),
            None if revision is None else revision.http.names.get(named),
        )
