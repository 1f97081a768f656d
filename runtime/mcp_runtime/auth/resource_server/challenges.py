"""What is wrong with a request's credentials goes in, the status and the headers that say so come out (RFC 6750 3,
RFC 9449 7.1, RFC 9728 5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import LocalError
from ...session.identity import INSUFFICIENT_SCOPE, RawHeaders

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, slots=True)
class AuthChallenge:
    """A request is turned away with this status and these headers."""

    status: int
    reason: str
    headers: RawHeaders = ()


@dataclass(frozen=True, slots=True)
class Challenges:
    """How one resource challenges: where its metadata is, None for none; the scopes that every request needs; the
    algorithms of proofs where it takes them, and whether it takes a token without (`bearer`)."""

    metadata: str | None
    scopes: tuple[str, ...]
    dpop_algorithms: tuple[str, ...] = ()
    bearer: bool = True

    def missing_token(self) -> AuthChallenge:
        """Nobody said whose request this is. No error is named, as nothing was wrong (RFC 6750 3.1)."""
        return AuthChallenge(401, "this needs authorization", self._headers(None, self.scopes))

    def invalid_request(self, reason: str) -> AuthChallenge:
        """The credentials are not formed as they have to be."""
        return AuthChallenge(400, reason, self._headers("invalid_request", self.scopes))

    def invalid_token(self, error: str = "invalid_token", more: RawHeaders = ()) -> AuthChallenge:
        """The token, or the proof, is not good; why, is told to nobody."""
        return AuthChallenge(401, "the credentials are not good", [*self._headers(error, self.scopes), *more])

    def insufficient_scope(self, scopes: Iterable[str]) -> RawHeaders:
        """The headers that name all scopes a request needs at once, with those that every request does."""
        return self._headers(INSUFFICIENT_SCOPE, tuple(dict.fromkeys([*self.scopes, *scopes])))

    def _headers(self, error: str | None, scopes: tuple[str, ...]) -> RawHeaders:
        said = {"error": error, "scope": " ".join(scopes) or None, "resource_metadata": self.metadata}
        parts = [f'{name}="{value}"' for name, value in said.items() if value is not None]
        schemes = ["Bearer"] if self.bearer else []
        proofs = [f'algs="{" ".join(self.dpop_algorithms)}"', *parts]
        found = [_line(scheme, parts) for scheme in schemes]
        return [*found, _line("DPoP", proofs)] if self.dpop_algorithms else found


def _line(scheme: str, parts: Sequence[str]) -> tuple[bytes, bytes]:
    return b"www-authenticate", f"{scheme} {', '.join(parts)}".rstrip().encode("ascii")


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes, if they may stand in a challenge (RFC 6749 3.3). Raises LocalError."""
    found = tuple(dict.fromkeys(scopes))
    for each in found:
        if not _SCOPE.fullmatch(each):
            raise LocalError(f"{each!r} is no name of a scope")
    return found
