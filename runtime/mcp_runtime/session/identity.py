"""What a token says goes in; the user that handlers know, and what that user may do, comes out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import JSONRPCError, LocalError
from ..protocol.jsonrpc import INVALID_REQUEST

INSUFFICIENT_SCOPE: Final = "insufficient_scope"
RawHeaders = Sequence[tuple[bytes, bytes]]
ChallengeBuilder = Callable[[Iterable[str]], RawHeaders]


@dataclass(frozen=True, slots=True, eq=False)
class AuthenticatedUser:
    """Whose token a request came with: at least one of `subject` and `client` is known. `claims` are all that the
    token says, without the token itself. `bound`: the thumbprint of the key that its sender has to prove to hold.
    `expires`: when the token ends, in seconds since the epoch; what it has opened to listen to ends with it."""

    subject: str | None
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    issuer: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    dpop_thumbprint: str | None = None
    expires_at: float | None = None

    def __post_init__(self) -> None:
        if not self.subject and not self.client_id:
            raise LocalError("a user has a subject, or at least a client id")

    @property
    def key(self) -> str:
        """The same text for the same user of the same client, whatever the token: what is kept for users is kept
        under it."""
        return json.dumps([self.issuer, self.subject, self.client_id])


class RequestAuth:
    """Who sent one request over the network. `owner` is what sessions are bound to. `denied` is the challenge by which
    the request is to be refused, once something has needed scopes that its token has not."""

    __slots__ = ("user", "owner", "challenge_headers", "_challenge")

    def __init__(
        self, user: AuthenticatedUser | None, challenge: ChallengeBuilder | None = None, owner: object = None
    ) -> None:
        self.user = user
        self.owner = owner if user is None else user.key
        self.challenge_headers: RawHeaders = ()
        self._challenge = challenge

    @property
    def expires_in(self) -> float | None:
        """Seconds until the token ends; None for ever."""
        expires = None if self.user is None else self.user.expires_at
        return None if expires is None else max(expires - time.time(), 0.0)

    def require_scopes(self, scopes: Iterable[str]) -> None:
        """Raises JSONRPCError unless the token has all of these scopes, and where there was none."""
        wanted = tuple(dict.fromkeys(scopes))
        if not wanted or (self.user is not None and self.user.scopes.issuperset(wanted)):
            return
        if self.user is not None and self._challenge is not None:
            self.challenge_headers = self._challenge(wanted)
        said = {"error": INSUFFICIENT_SCOPE, "scope": " ".join(wanted)}
        raise JSONRPCError(INVALID_REQUEST, f"this needs the scopes: {', '.join(wanted)}", said)


# Who asks an endpoint without protection: it may do all that needs no scope.
UNAUTHENTICATED: Final = RequestAuth(None)
