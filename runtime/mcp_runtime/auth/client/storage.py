"""What a client was given goes in, under its issuer and resource; it comes out again, perhaps in a later process."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary


@dataclass(frozen=True, slots=True)
class OAuthClientInformation:
    """A client as an authorization server knows it. `method`: how it shows itself at the token endpoint; None for what
    the server knows, basic first. `key`: a private key, PEM or JWK, for private_key_jwt. `issuer`: the one it is for;
    None for the first that is met. `signs`: the algorithm of the key. `redirect`: where it registered itself to be
    sent back to."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    token_endpoint_auth_method: str | None = None
    private_key: str | None = field(default=None, repr=False)
    signing_algorithm: str = "ES256"
    issuer: str | None = None
    redirect_uri: str | None = None


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """An access token and what it is good for. `expires`: seconds since the epoch, if the server said it. `bound`: the
    thumbprint of the key it is bound to (DPoP)."""

    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    dpop_thumbprint: str | None = None


@dataclass(frozen=True, slots=True)
class StoredCredentials:
    """All that is kept for one resource: the client and its token at one issuer."""

    issuer: str
    client: OAuthClientInformation
    token: OAuthToken | None = None


class TokenStorage(Protocol):
    """Where credentials are kept, by the URL of the MCP server. A change of issuer replaces all that is kept."""

    async def load(self, server: str) -> StoredCredentials | None: ...

    async def save(self, server: str, credentials: StoredCredentials | None) -> None: ...

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        """While it is held, nobody else who shares this storage asks for a token for this server: a refresh token
        that is used twice would end them all."""
        ...


class InMemoryTokenStorage:
    """Keeps credentials as long as the process lasts."""

    def __init__(self) -> None:
        self._credentials: dict[str, StoredCredentials] = {}
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()

    async def load(self, server: str) -> StoredCredentials | None:
        return self._credentials.get(server)

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        if credentials is None:
            self._credentials.pop(server, None)
        else:
            self._credentials[server] = credentials

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        # A lock is of one event loop, while clients of several threads may share what is kept.
        turns = self._locks.setdefault(asyncio.get_running_loop(), {})
        return turns.setdefault(server, asyncio.Lock())


def credentials_from_json(value: Any) -> StoredCredentials:
    """What asdict made of it. Raises TypeError or KeyError for what is not that."""
    token: dict[str, Any] | None = value["token"]
    client = OAuthClientInformation(**value["client"])
    if token is None:
        return StoredCredentials(value["issuer"], client)
    fields: dict[str, Any] = {**token, "scopes": tuple(token["scopes"])}
    return StoredCredentials(value["issuer"], client, OAuthToken(**fields))
