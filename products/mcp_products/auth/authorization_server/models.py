"""Data of an authorization server: clients, grants, digests of secrets, and OAuth errors."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum, StrEnum
from hashlib import sha256
from typing import Any, Final

from mcp_runtime.errors import TracebackNotes
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import NAME, Rule, are_texts

CODE: Final = "authorization_code"
REFRESH: Final = "refresh_token"
CREDENTIALS: Final = "client_credentials"
_LISTS: Final = ("redirect_uris", "grant_types", "scopes")  # Tuples, which JSON has as lists.
_TEXTS: Final = Rule(are_texts, "a list of strings")


class OAuthErrorCode(StrEnum):
    """Error codes of https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1,
    https://www.rfc-editor.org/rfc/rfc6749#section-5.2, https://www.rfc-editor.org/rfc/rfc7591#section-3.2.2 and
    https://www.rfc-editor.org/rfc/rfc8707#section-2."""

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
    """An OAuth error response."""

    __notes__: Any = TracebackNotes()

    def __init__(self, code: OAuthErrorCode, reason: str, status: int = 400) -> None:
        """Create an error.

        Args:
            code: The `error` of the response.
            reason: Its `error_description`; it must not contain secrets.
            status: HTTP status code. Default 400.
        """
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.status = status


class ClientOrigin(Enum):
    """The source of a client's metadata, which the consent page shows."""

    STATIC = "configured by the operator of the server"
    REGISTERED = "dynamic client registration"
    DOCUMENT = "client id metadata document"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client of the authorization server. Use `OAuthClient.static` to configure one.

    Args:
        client_id: Client identifier.
        redirect_uris: Registered redirect URIs. Default: none.
        name: Name to show to users. Default: empty.
        secret_digest: Digest of the client secret. Default None: a public client.
        grant_types: Grant types that the client may use. Default: authorization_code and refresh_token.
        scopes: Scopes that the client may request. Default None: all scopes of the server.
        may_introspect: True for a resource server, which may introspect tokens. Default False.
        origin: Source of the metadata. Default: configured by the operator.
        created: Time of the registration, in seconds since the epoch. Default 0.
    """

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
    @checked(rules={"client_id": NAME, "redirect_uris": _TEXTS, "grant_types": _TEXTS, "scopes": _TEXTS.or_none()})
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
        """Return a client for the configuration of a server.

        Args:
            client_id: Client identifier.
            redirect_uris: Registered redirect URIs. Default: none.
            name: Name to show to users. Default: empty.
            secret: Client secret, of which only the digest is stored. Default None: a public client.
            grant_types: Grant types that the client may use. Default: authorization_code and refresh_token.
            scopes: Scopes that the client may request. Default None: all scopes of the server.
            may_introspect: True for a resource server, which may introspect tokens. Default False.
        """
        secret_digest = digest(secret) if secret else None
        return cls(client_id, redirect_uris, name, secret_digest, grant_types, scopes, may_introspect)

    def to_json(self) -> dict[str, Any]:
        """Return the client as JSON, for a storage."""
        return {**asdict(self), "origin": self.origin.name}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> OAuthClient:
        """Return a stored client."""
        lists = {name: None if fields[name] is None else tuple(fields[name]) for name in _LISTS}
        read: dict[str, Any] = {**fields, **lists, "origin": ClientOrigin[fields["origin"]]}
        return cls(**read)

    def check_secret(self, secret: str) -> bool:
        """Return True if the secret is that of the client. The comparison takes constant time."""
        return self.secret_digest is not None and hmac.compare_digest(digest(secret), self.secret_digest)


@dataclass(frozen=True, slots=True)
class StoredGrant:
    """An authorization of a client by a user. All codes and tokens of a grant end with it.

    Args:
        id: Identifier.
        client_id: The client.
        user: The user; the client's id if the client acts for itself.
        scopes: Granted scopes.
        resource: Resource that the tokens are for.
        expires_at: Time at which the grant expires, in seconds since the epoch.
        upstream: Encrypted token of the upstream provider. Default None: there is none.
    """

    id: str
    client_id: str
    user: str
    scopes: tuple[str, ...]
    resource: str
    expires_at: float
    upstream: str | None = field(default=None, repr=False)


class SecretKind(StrEnum):
    """The use of a secret."""

    CODE = "code"
    ACCESS = "access"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A code or a token of a grant.

    Args:
        digest: Digest of the secret.
        kind: Use of the secret.
        grant_id: The grant.
        expires_at: Time at which it expires, in seconds since the epoch.
        scopes: Scopes of a token. Default: none.
        redirect_uri: Redirect URI that a code is bound to.
        code_challenge: PKCE code challenge that a code is bound to.
    """

    digest: str = field(repr=False)
    kind: SecretKind
    grant_id: str
    expires_at: float
    scopes: tuple[str, ...] = ()
    redirect_uri: str = ""
    code_challenge: str = ""


def digest(secret: str) -> str:
    """Return the digest under which a secret is stored. SHA-256 is enough for 256 random bits; a slow hash is for
    passwords that people choose."""
    return sha256(secret.encode()).hexdigest()


def new_secret() -> str:
    """Return a new random code, token, identifier or client secret of 256 bits."""
    return secrets.token_urlsafe(32)
