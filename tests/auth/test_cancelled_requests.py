"""What requests share of authorization: whoever begins to fetch or to refresh it may be cancelled at any wait."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey
from support.cancelled_steps import each_wait, steps

from mcp_generated.auth import (
    ClientCredentials,
    InMemoryTokenStorage,
    OAuthClientInformation,
    OAuthClientProvider,
    OAuthToken,
)
from mcp_products.auth.authorization_server.models import StoredGrant
from mcp_products.auth.authorization_server.upstream import UpstreamClient, UpstreamProvider
from mcp_products.auth.client.storage import StoredCredentials
from mcp_products.auth.http import SharedRequests
from mcp_products.auth.resource_server.verifiers import JWKSClient
from mcp_products.common.keys import KeyRing
from mcp_products.relay.gateway.settings import ExchangeSettings
from mcp_products.relay.gateway.token_exchange import TokenExchange, UserToken

ISSUER, SERVER = "https://auth.example", "https://mcp.example/mcp"


async def test_a_key_set_is_fetched_for_all_although_its_first_request_was_reset() -> None:
    """The next fetch would be 15 s later, and all tokens be refused until then."""
    key = ECKey.generate_key("P-256", {"kid": "one"}).as_dict(private=False)

    def world() -> Any:
        fetched: list[str] = []

        async def get(url: str) -> Any:
            fetched.append(url)
            await steps(3)
            return SimpleNamespace(status=200, body={"keys": [key]})

        http: Any = SimpleNamespace(get=get)
        client = JWKSClient(ISSUER, f"{ISSUER}/keys", http, lambda: 1000.0)

        async def ask() -> tuple[int, int]:
            return len(await client.find("one", frozenset({"EC"}))), len(fetched)

        return ask

    assert await each_wait(world, (1, 1)) == 1


async def test_a_token_is_exchanged_once_although_its_first_request_was_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    def world() -> Any:
        exchange = TokenExchange(SERVER, ExchangeSettings(f"{ISSUER}/token", "gateway"))
        exchanged: list[str] = []

        async def exchanging(subject: str) -> tuple[str, float]:
            exchanged.append(subject)
            await steps(3)
            return f"token {len(exchanged)}", 3600

        monkeypatch.setattr(exchange, "exchanged", exchanging)
        user = UserToken(exchange)
        user.use("subject", None)

        async def ask() -> str:
            flow = user.async_auth_flow(httpx2.Request("POST", SERVER))
            request = await anext(flow)
            await flow.aclose()
            return str(request.headers["authorization"])

        return ask

    assert await each_wait(world, "Bearer token 1") == 1


class RotatingProvider(OAuthClientProvider):
    """A client whose authorization server accepts each refresh token once, and revokes all after a second use."""

    used: list[str]

    async def _refresh(self, credentials: Any, issuer: Any, resource: Any, old: OAuthToken) -> OAuthToken | None:
        assert old.refresh_token is not None and old.refresh_token not in self.used, "the grant is revoked"
        self.used.append(old.refresh_token)
        await steps(3)  # The server has rotated it: the answer is on its way.
        token = OAuthToken(access_token="new", refresh_token="second", expires_at=9e9, scopes=())
        await self._storage.save(SERVER, StoredCredentials(ISSUER, credentials.client, token))
        return token


async def test_a_refresh_token_is_not_lost_with_the_request_that_uses_it() -> None:
    def world() -> Any:
        storage, grant = InMemoryTokenStorage(), ClientCredentials(OAuthClientInformation("id"))
        provider = RotatingProvider(SERVER, grant, storage=storage)
        provider.used = []

        async def find(*_: Any, **__: Any) -> Any:
            await steps(2)
            return None, SimpleNamespace(issuer=ISSUER)

        discovery: Any = SimpleNamespace(find=find)
        provider._discovery = discovery

        async def ask() -> str:
            if not await storage.load(SERVER):
                old = OAuthToken(access_token="old", refresh_token="first", expires_at=1.0, scopes=())
                await storage.save(SERVER, StoredCredentials(ISSUER, OAuthClientInformation("client"), old))
            flow = provider.async_auth_flow(httpx2.Request("POST", SERVER))
            request = await anext(flow)
            await flow.aclose()
            return str(request.headers["authorization"])

        return ask

    assert await each_wait(world, "Bearer new") == 1


async def test_metadata_is_fetched_for_all_although_its_first_request_was_reset() -> None:
    """One place, which a request that was reset must not keep."""

    def world() -> Any:
        requests: SharedRequests[str, int] = SharedRequests(1, seconds=20, at_once_of_group=1)
        fetched: list[str] = []

        async def fetch() -> int:
            fetched.append(SERVER)
            await steps(3)
            return len(fetched)

        async def ask() -> bool:
            other = await requests.run("another document", fetch, "host")
            return await requests.run(SERVER, fetch, "host") > other

        return ask

    assert await each_wait(world, True) == 2


class Grants:
    """A storage with one grant, which takes a while."""

    stored: StoredGrant

    async def grant(self, id: str) -> StoredGrant:
        await steps(1)
        return self.stored

    async def update_upstream(self, id: str, token: str) -> None:
        await steps(2)
        self.stored = replace(self.stored, upstream=token)


class RenewingClient(UpstreamClient):
    """Renews tokens after some steps, and each refresh token once."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.used: list[str] = []

    def _endpoint(self, issuer: Any) -> Any:
        return SimpleNamespace(token=self.renew)

    async def _discover(self) -> Any:
        await steps(2)

    async def renew(self, form: dict[str, str], scopes: Any) -> OAuthToken:
        assert form["refresh_token"] not in self.used, "the grant is revoked"
        self.used.append(form["refresh_token"])
        await steps(3)
        return OAuthToken(access_token="new", refresh_token="second", expires_at=9e9, scopes=())


async def test_an_upstream_token_is_renewed_once_although_its_first_request_was_reset() -> None:
    """The third party accepts each refresh token once, and the grant would be revoked with the second use."""

    async def identify(token: OAuthToken) -> str:
        await steps(2)
        return "ann"

    def world() -> Any:
        client = OAuthClientInformation("server")
        provider = UpstreamProvider(issuer=ISSUER, client=client, identify=identify)
        grants = Grants()
        keys = KeyRing(KeyRing.new_key())
        upstream = RenewingClient(provider, f"{SERVER}/callback", grants, keys, lambda: 1000.0)
        old = OAuthToken(access_token="old", refresh_token="first", expires_at=1001.0, scopes=())
        grants.stored = StoredGrant("grant", "client", "ann", (), SERVER, 9e9, upstream.encrypt(old, "ann"))

        async def ask() -> str | None:
            token = await upstream.token(grants.stored)
            return None if token is None else token.access_token

        return ask

    assert await each_wait(world, "new") == 1
