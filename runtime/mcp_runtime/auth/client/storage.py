"""Credentials of an OAuth client, and where they are stored."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary


@dataclass(frozen=True, slots=True)
class OAuthClientInformation:
    """A client as it is registered with an authorization server (https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1).

    Args:
        client_id: Client identifier.
        client_secret: Client secret. Default None: a public client, or one with a private key.
        token_endpoint_auth_method: Method of client authentication. Default None: `private_key_jwt` with a private key,
            `none` without a secret, else the first of `client_secret_basic` and `client_secret_post` that the server
            supports.
        private_key: Private key for `private_key_jwt`, as PEM or JWK.
        signing_algorithm: Algorithm of the private key. Default `ES256`.
        issuer: Issuer identifier of the authorization server. Default None: the first one that the MCP server names;
            the client is bound to it from then on.
        redirect_uri: Redirect URI of a client that registered itself.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    token_endpoint_auth_method: str | None = None
    private_key: str | None = field(default=None, repr=False)
    signing_algorithm: str = "ES256"
    issuer: str | None = None
    redirect_uri: str | None = None


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """An access token, from a token response (https://www.rfc-editor.org/rfc/rfc6749#section-5.1).

    Args:
        access_token: The access token.
        token_type: `Bearer` or `DPoP`. Default `Bearer`.
        scopes: Scopes of the token. Default: none.
        expires_at: Time at which the token expires, in seconds since the epoch. Default None: unknown.
        refresh_token: The refresh token. Default None: there is none.
        dpop_thumbprint: Thumbprint of the key that the token is bound to. Default None: it is not bound to a key.
    """

    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    dpop_thumbprint: str | None = None


@dataclass(frozen=True, slots=True)
class StoredCredentials:
    """The stored credentials for one MCP server.

    Args:
        issuer: Issuer identifier of the authorization server.
        client: The client as it is registered there.
        token: The token. Default None: there is none yet.
    """

    issuer: str
    client: OAuthClientInformation
    token: OAuthToken | None = None


class TokenStorage(Protocol):
    """A storage of credentials, by the URL of the MCP server. It holds the credentials of one issuer for each
    server."""

    async def load(self, server: str) -> StoredCredentials | None:
        """Return the credentials for a server, if there are any."""
        ...

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        """Store the credentials for a server; None deletes them."""
        ...

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        """Return a lock that all users of this storage share. Only its holder requests tokens for the server: using a
        refresh token twice would revoke all tokens of its grant."""
        ...


class InMemoryTokenStorage:
    """Stores credentials in memory, until the process ends."""

    def __init__(self) -> None:
        """Create an empty storage."""
        self._credentials: dict[str, StoredCredentials] = {}
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()

    async def load(self, server: str) -> StoredCredentials | None:
        """Return the credentials for a server, if there are any."""
        return self._credentials.get(server)

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        """Store the credentials for a server; None deletes them."""
        if credentials is None:
            self._credentials.pop(server, None)
        else:
            self._credentials[server] = credentials

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        """Return a lock on the tokens for a server, shared by the clients of one event loop."""
        # An asyncio lock belongs to one event loop, but clients of several threads may share this storage.
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        return locks.setdefault(server, asyncio.Lock())


def credentials_from_json(value: Any) -> StoredCredentials:
    """Return the credentials in a JSON value that `dataclasses.asdict` made.

    Raises TypeError, KeyError or AttributeError for another value.
    """
    token: dict[str, Any] | None = value["token"]
    client = OAuthClientInformation(**value["client"])
    if token is None:
        return StoredCredentials(value["issuer"], client)
    fields: dict[str, Any] = {**token, "scopes": tuple(token["scopes"])}
    return StoredCredentials(value["issuer"], client, OAuthToken(**fields))
