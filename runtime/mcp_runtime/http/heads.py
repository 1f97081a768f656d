"""The head of a request goes in; what it says and what is wrong with it comes out, read once for heads that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .headers import JSON, NAME, Head, Turned, accepts, decode_value, read_headers
from .origins import Origins
from .rules import Spoken, check_method

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

    def read(self, method: str, raw: Raw) -> tuple[Head, bytes]:
        """What a head says, and the length of the body apart, nothing where it is not said: a client sends the same head
        again and again, but for that."""
        fields = dict(raw)
        if len(fields) != len(raw):  # Rare, and maybe wrong: some names are there twice.
            return self._read(method, raw), fields.get(_LENGTH, b"")
        length = fields.pop(_LENGTH, b"")
        key = (method, *fields.items())
        head = self._seen.get(key)
        if head is None:
            head = self._read(method, list(fields.items()))
            size = sum(len(name) + len(value) for name, value in raw)
            if size <= _LARGEST and not any(name in head.headers for name in _SECRET):
                if len(self._seen) >= _KEPT:
                    self._seen.clear()
                self._seen[key] = head
        return head, length

    def _read(self, method: str, raw: Raw) -> Head:
        headers = read_headers(raw)
        if isinstance(headers, Turned):
            return Head({}, headers, None, True, None)
        stranger = self._origins.check(headers)
        turned = stranger or check_method(method, headers, self._spoken)
        name = headers.get(NAME)
        plain = accepts(headers.get("accept"), JSON)
        return Head(headers, stranger, turned, plain, None if name is None else decode_value(name))
