"""What an authorization server keeps and says: clients, grants, secrets by their digest, and refusals."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from hashlib import sha256
from typing import Final

CODE: Final = "authorization_code"
REFRESH: Final = "refresh_token"
CREDENTIALS: Final = "client_credentials"


class OAuthErrorCode(StrEnum):
    """The words of RFC 6749 4.1.2.1 and 5.2, RFC 7591 3.2.2 and RFC 8707 2."""

    INVALID_REQUEST = "invalid_request"
    INVALID_CLIENT = "invalid_client"
    INVALID_GRANT = "invalid_grant"
    INVALID_SCOPE = "invalid_scope"
    INVALID_TARGET = "invalid_target"
    INVALID_REDIRECT_URI = "invalid_redirect_uri"
    INVALID_CLIENT_METADATA = "invalid_client_metadata"
    UNAUTHORIZED_CLIENT = "unauthorized_client"
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"
    ACCESS_DENIED = "access_denied"
    SERVER_ERROR = "server_error"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"


class OAuthError(Exception):
    """A request is refused, with a word of the protocol and a sentence that has no secret in it."""

    def __init__(self, error: OAuthErrorCode, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.code = error
        self.reason = reason
        self.status = status


class ClientOrigin(Enum):
    """How a client became known, which is what a person is told of it."""

    STATIC = "the operator of the server gave it"
    REGISTERED = "it registered itself"
    DOCUMENT = "its id is where its metadata is"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client. `secret`: the digest of its secret; None for a public one. `scopes`: what it may have at most; None for
    all there is. `introspects`: it is a resource server, which may ask what tokens are worth. `made`: seconds since the
    epoch."""

    client_id: str
    redirect_uris: tuple[str, ...] = ()
    name: str = ""
    secret_digest: str | None = field(default=None, repr=False)
    grant_types: tuple[str, ...] = (CODE, REFRESH)
    scopes: tuple[str, ...] | None = None
    may_introspect: bool = False
    origin: ClientOrigin = ClientOrigin.STATIC
    created: float = 0.0

    @classmethod
    def static(
        cls,
        client_id: str,
        redirect_uris: tuple[str, ...] = (),
        *,
        name: str = "",
        secret: str | None = None,
        grant_types: tuple[str, ...] = (CODE, REFRESH),
        scopes: tuple[str, ...] | None = None,
        may_introspect: bool = False,
    ) -> OAuthClient:
        """A client that is given to the server beforehand; of its secret only the digest stays."""
        return cls(client_id, redirect_uris, name, digest(secret) if secret else None, grant_types, scopes, may_introspect)

    def check_secret(self, secret: str) -> bool:
        """Whether a secret is this client's, in a time that does not tell how much of it was right."""
        return self.secret_digest is not None and hmac.compare_digest(digest(secret), self.secret_digest)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person allowed a client, or a client has of its own (`user` is its id then): all codes and tokens that come
    of it end with it. `upstream`: sealed, what a third party's server gave for it."""

    id: str
    client_id: str
    user: str
    scopes: tuple[str, ...]
    resource: str
    expires_at: float
    upstream: str | None = field(default=None, repr=False)


class SecretKind(StrEnum):
    """What a secret is good for."""

    CODE = "code"
    ACCESS = "access"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A code or a token, by its digest. `redirect` and `challenge`: what a code is bound to beside its grant."""

    digest: str = field(repr=False)
    kind: SecretKind
    grant_id: str
    expires_at: float
    scopes: tuple[str, ...] = ()
    redirect_uri: str = ""
    code_challenge: str = ""


def digest(secret: str) -> str:
    """What is kept of a secret of 256 random bits; a slow hash is for those that people choose."""
    return sha256(secret.encode()).hexdigest()


def new_secret() -> str:
    """A code, a token, an id or a client's secret: 256 random bits."""
    return secrets.token_urlsafe(32)
