"""The head of a request goes in; what it says and what is wrong with it comes out, read once for heads that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .headers import JSON, Headers, Turned, accepts, read_headers
from .origins import Origins
from .rules import Spoken, check_method

Raw = Sequence[tuple[bytes, bytes]]

_KEPT: Final = 1024  # Heads that are remembered; then all are forgotten.
_LARGEST: Final = 4096  # Bytes of a head that is remembered, so that a stranger's long ones take no memory.
_LENGTH: Final = b"content-length"
_SECRET: Final = ("authorization", "cookie", "proxy-authorization", "dpop")  # Not kept longer than a request lasts.


@dataclass(frozen=True, slots=True)
class Head:
    """The headers but for the length; why the request is turned away before its path is looked at (`stranger`) and
    after (`turned`); whether its sender takes an answer as one JSON body."""

    headers: Headers
    stranger: Turned | None
    turned: Turned | None
    plain: bool


class Heads:
    """The heads of the requests to one endpoint."""

    def __init__(self, origins: Origins, spoken: Spoken) -> None:
        self._origins = origins
        self._spoken = spoken
        self._seen: dict[object, Head] = {}

    def read(self, method: str, raw: Raw) -> Head:
        """What a head says. A client sends the same one again and again, but for the length."""
        try:
            key = (method, *[pair for pair in raw if pair[0] != _LENGTH])
            head = self._seen.get(key)
        except TypeError:  # A server that gives lists instead of pairs.
            return self._read(method, [(name, value) for name, value in raw])
        if head is None:
            head = self._read(method, raw)
            size = sum(len(name) + len(value) for name, value in raw)
            if size <= _LARGEST and not any(name in head.headers for name in _SECRET):
                if len(self._seen) >= _KEPT:
                    self._seen.clear()
                self._seen[key] = head
        return head

    def _read(self, method: str, raw: Raw) -> Head:
        headers = read_headers(raw)
        if isinstance(headers, Turned):
            return Head({}, headers, None, True)
        stranger = self._origins.check(headers)
        turned = stranger or check_method(method, headers, self._spoken)
        return Head(headers, stranger, turned, accepts(headers.get("accept"), JSON))


def length_of(raw: Raw, largest: int) -> int | Turned:
    """How long the body is to be, 0 where that is not said."""
    said = [value for name, value in raw if name == _LENGTH]
    if not said:
        return 0
    if len(said) > 1 or not said[0].isdigit() or len(said[0]) > 15:
        return Turned(400, "the Content-Length is no number")
    return int(said[0]) if int(said[0]) <= largest else Turned(413, f"a message is at most {largest} bytes long")
