"""Our own client before our own protected server: what one says, the other understands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.auth.resource_server import Authority, Endpoint, endpoint
from support.endpoints import ALL_REVISIONS, Rev, among, since

from mcp_products.auth.client.grants import ClientCredentials
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.storage import OAuthClientInformation
from mcp_products.auth.resource_server.dpop import DPoPVerifier
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.http.authentication import AuthChallenge
from mcp_runtime.session.interfaces import AuthenticatedUser, RequestAuth
from mcp_runtime.transports.http_client.connection import HTTPOptions

WITH_RESOURCE_METADATA = since("2025-06-18", ALL_REVISIONS)


@pytest.fixture
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


@asynccontextmanager
async def connected(at: Endpoint, **more: Any) -> AsyncIterator[Any]:
    auth = OAuthClientProvider(at.url, ClientCredentials(OAuthClientInformation("resource", "s&cret")), **more)
    async with at.rev.package.Client.http(at.url, http=HTTPOptions(auth=auth)) as client:
        yield client


@among(WITH_RESOURCE_METADATA)
async def test_a_client_finds_the_issuer_and_steps_up_to_what_a_tool_needs(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name], scopes=["read"])) as at:
        async with connected(at) as client:
            for name in ("read", "write", "read", "write"):
                assert not (await client.call_tool(name=name, arguments={})).is_error
    assert [sorted(scope.split()) for scope in issuer.scopes] == [["read"], ["read", "write"]]
    assert [ctx.user.client_id for ctx in at.ran] == ["app"] * 4


@among(WITH_RESOURCE_METADATA)
@pytest.mark.parametrize("chosen", [True, False], ids=["a client that wants to", "a client that has to"])
async def test_a_client_proves_to_hold_its_key_with_the_nonces_it_is_told(
    rev: Rev, chosen: bool, issuer: Authority
) -> None:
    def resource_server(url: str) -> ResourceServer:
        return ResourceServer(url, [issuer.name], dpop=DPoPVerifier(required=not chosen, require_nonce=True))

    async with endpoint(rev, resource_server) as at:
        async with connected(at, dpop=chosen) as client:
            for _ in range(3):
                await client.call_tool(name="read", arguments={})
    assert len({ctx.user.dpop_thumbprint for ctx in at.ran}) == 1 and at.ran[0].user.dpop_thumbprint


async def test_what_a_client_cannot_get_it_does_not_ask_for_without_end(issuer: Authority) -> None:
    async def verify(token: str) -> Any:
        return AuthenticatedUser("alice", scopes=frozenset({"read"}))

    verifier = type("Stingy", (), {"verify": staticmethod(verify)})()
    async with endpoint(
        WITH_RESOURCE_METADATA[-1], lambda url: ResourceServer(url, [issuer.name], verifier=verifier)
    ) as at:
        async with connected(at) as client:
            with pytest.raises(RemoteJSONRPCError, match="write") as raised:
                await client.call_tool(name="write", arguments={})
            assert raised.value.status == 403 and len(issuer.scopes) <= 3


class Nobody:
    """Knows no token."""

    async def verify(self, token: str) -> None:
        assert token.isascii() and " " not in token and "," not in token


GATES = [
    ResourceServer("https://a.example/mcp", ["https://b.example"], verifier=Nobody(), dpop=possession).authenticator(
        False, True
    )
    for possession in (None, DPoPVerifier(), DPoPVerifier(required=True))
]
TEXT = st.text(st.characters(max_codepoint=255), max_size=60)


@pytest.mark.long
@settings(max_examples=300)
@given(
    st.one_of(TEXT, TEXT.map("Bearer {}".format), TEXT.map("DPoP {}".format), TEXT.map("bearer  {}".format)),
    st.one_of(st.none(), TEXT),
    st.binary(max_size=60),
    st.sampled_from(GATES),
)
def test_no_head_of_a_request_lets_anybody_in_or_breaks_anything(
    authorization: str, proof: str | None, query: bytes, gate: Any
) -> None:
    headers = {"authorization": authorization, **({} if proof is None else {"dpop": proof})}
    judged: RequestAuth | AuthChallenge = asyncio.run(gate.authenticate(headers, "POST", None, query))
    assert isinstance(judged, AuthChallenge) and judged.status in (400, 401) and judged.headers
    assert all(b"\r" not in value and b"\n" not in value for _, value in judged.headers)
