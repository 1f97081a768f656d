"""The authenticated user of a request, and what the access token allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import JSONRPCError, LocalError
from ..protocol.jsonrpc import INVALID_REQUEST

INSUFFICIENT_SCOPE: Final = "insufficient_scope"
_OF_ONE_TOKEN: Final = frozenset({"exp", "iat", "nbf", "jti"})
RawHeaders = Sequence[tuple[bytes, bytes]]
ChallengeBuilder = Callable[[Iterable[str]], RawHeaders]


@dataclass(frozen=True, slots=True, eq=False)
class AuthenticatedUser:
    """The user of an access token. Raises LocalError without both subject and client id.

    Args:
        subject: Subject of the token (`sub`); None if the token is a client's own.
        client_id: The OAuth client that got the token. Default None: the token does not name it.
        scopes: Scopes of the token. Default: none.
        issuer: Issuer identifier of the authorization server. Default: empty.
        claims: All claims of the token, without the token itself. Default: none.
        dpop_thumbprint: Thumbprint of the key that the token is bound to
            (https://www.rfc-editor.org/rfc/rfc9449#section-6). Default None: it is a bearer token.
        expires_at: Time at which the token expires, in seconds since the epoch; subscriptions opened with the token
            end then. Default None: it does not expire.
    """

    subject: str | None
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    issuer: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    dpop_thumbprint: str | None = None
    expires_at: float | None = None

    def __post_init__(self) -> None:
        if not self.subject and not self.client_id:
            raise LocalError("a user needs a subject or a client_id")

    @property
    def key(self) -> str:
        """A stable id of the user of one client, the same for all tokens of this user; use it as a key for storage."""
        import json  # Imported here: servers without authorization start faster without it.

        return json.dumps([self.issuer, self.subject, self.client_id])

    @property
    def rights_key(self) -> str:
        """What the access token allows, as text: the user, the scopes, and all claims, such as the audience, the actor
        and the key that it is bound to. Use it as a key for what may differ between two tokens of one user.

        Claims that each token has for itself, its times and its id, are left out: a token that was renewed has the same
        key.
        """
        import json
        from hashlib import sha256

        claims = {name: value for name, value in self.claims.items() if name not in _OF_ONE_TOKEN}
        rights = [sorted(self.scopes), self.dpop_thumbprint, claims]
        return f"{self.key} {sha256(json.dumps(rights, sort_keys=True, default=repr).encode()).hexdigest()}"


class RequestAuth:
    """The authentication of one HTTP request."""

    __slots__ = ("user", "owner", "challenge_headers", "checked_scopes", "_challenge")

    def __init__(
        self, user: AuthenticatedUser | None, challenge: ChallengeBuilder | None = None, owner: object = None
    ) -> None:
        """Create the authentication of a request.

        Args:
            user: The authenticated user; None if the endpoint is not protected.
            challenge: Returns the headers of an `insufficient_scope` challenge for scopes. Default None: there is no
                challenge.
            owner: The value that a session is bound to if there is no user. Default None.
        """
        self.user = user
        self.owner = owner if user is None else user.key
        # Headers of the response with status 403, set by a failed `require_scopes`.
        self.challenge_headers: RawHeaders = ()
        # All scopes that were required and granted: who reads the result later needs them as well.
        self.checked_scopes: frozenset[str] = frozenset()
        self._challenge = challenge

    @property
    def owner_key(self) -> str:
        """A stable id of the owner, `user.key` for the user of an access token; empty without an owner."""
        if self.user is not None:
            return self.user.key
        return "" if self.owner is None else f"owner:{self.owner!r}"

    @property
    def expires_in(self) -> float | None:
        """Seconds until the token expires; None if it does not."""
        expires_at = None if self.user is None else self.user.expires_at
        return None if expires_at is None else max(expires_at - time.time(), 0.0)

    def require_scopes(self, scopes: Iterable[str]) -> None:
        """Raise JSONRPCError unless the access token has all of these scopes; without a token it has none."""
        required = tuple(dict.fromkeys(scopes))
        if not required:
            return
        if self.user is not None and self.user.scopes.issuperset(required):
            self.checked_scopes = self.checked_scopes.union(required)
            return
        if self.user is not None and self._challenge is not None:
            self.challenge_headers = self._challenge(required)
        data = {"error": INSUFFICIENT_SCOPE, "scope": " ".join(required)}
        raise JSONRPCError(INVALID_REQUEST, f"this request needs the scopes: {', '.join(required)}", data)


# The authentication of requests to an endpoint without protection: `require_scopes` always raises.
UNAUTHENTICATED: Final = RequestAuth(None)
