"""What strangers may use up of an authorization server, or of what a resource server knows of one, is shared."""

from __future__ import annotations

import asyncio
from ipaddress import IPv6Address
from typing import Any

import pytest

from mcp_products.auth.authorization_server.clients import ClientRegistry, RegistrationQuota
from mcp_products.auth.authorization_server.storage import SQLiteStorage
from mcp_products.auth.http import AuthHTTPClient, AuthResponse, SharedRequests, URLPolicy
from mcp_products.auth.resource_server.dpop import InMemoryReplayCache
from mcp_products.auth.resource_server.verifiers import IntrospectionVerifier
from mcp_runtime.errors import AuthorizationError

BASE = int(IPv6Address("2001:db8::"))


@pytest.mark.parametrize(("varied", "limit"), [(40, 3), (64, 12), (72, 48)])
def test_registrations_of_one_customer_are_counted_however_many_networks_it_has(varied: int, limit: int) -> None:
    quota = RegistrationQuota(3, lambda: 0.0)
    accepted = [quota.acquire(str(IPv6Address(BASE + (number << varied)))) for number in range(250)]
    assert sum(accepted) == limit
    assert quota.acquire("2001:db8:1::1") and quota.acquire("192.0.2.1")
    assert sum(quota.acquire("::ffff:192.0.2.1") for _ in range(5)) == 2, "the same address in another form"
    assert len(quota._counts) < 150, "those who are refused take no memory"


def test_one_key_never_uses_up_the_memory_for_proofs() -> None:
    now = [0.0]
    cache = InMemoryReplayCache(max_entries=1000, clock=lambda: now[0])
    assert sum(cache.add(f"greedy.{number}", 100) for number in range(5000)) == 500
    for key in range(50):
        assert cache.add(f"key {key}.1", 100) and not cache.add(f"key {key}.1", 100)
    assert not cache.add("greedy.1", 100), "a proof that was used stays used"
    now[0] = 101
    assert cache.add("greedy.1", 200) and len(cache._ids) == 1


class Web(AuthHTTPClient):
    """Hosts that respond when they are allowed to."""

    def __init__(self, *slow: str) -> None:
        super().__init__(URLPolicy())
        self.slow = slow
        self.go = asyncio.Event()
        self.urls: list[str] = []

    async def get(self, url: str, headers: Any = None) -> AuthResponse:
        self.urls.append(url)
        if url.split("/")[2] in self.slow:
            await self.go.wait()
        return AuthResponse(200, {"client_id": url, "redirect_uris": ["http://127.0.0.1/callback"]})

    async def post_form(self, url: str, form: Any, headers: Any = None, auth: Any = None) -> AuthResponse:
        self.urls.append(form["token"])
        await self.go.wait()
        return AuthResponse(200, {"active": True, "sub": "alice", "client_id": "app"})


async def test_a_host_that_does_not_respond_takes_no_more_than_its_slots() -> None:
    web = Web("slow.example")
    clients = ClientRegistry(SQLiteStorage(), (), (), web, 10, lambda: 0.0)
    waiting = [asyncio.create_task(clients.find(f"https://slow.example/{number}")) for number in range(100)]
    same = [asyncio.create_task(clients.find("https://slow.example/0")) for _ in range(5)]
    async with asyncio.timeout(3):
        assert (await clients.find("https://quick.example/id")) is not None
    assert len(web.urls) == 3, "two of the slow host, once the same document, and one of the other"
    waiting[0].cancel()
    web.go.set()
    assert all(await asyncio.gather(*waiting[1:], *same)), "a caller that leaves takes nothing from the others"


async def test_a_request_ends_at_its_deadline_even_while_it_waits() -> None:
    requests: SharedRequests[int, None] = SharedRequests(1, seconds=0.02, at_once_of_group=1)
    outcomes = await asyncio.gather(
        *(requests.run(number, asyncio.Event().wait, number % 2) for number in range(6)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [TimeoutError] * 6
    assert not requests._running and not requests._groups


async def test_a_token_is_introspected_once_and_few_at_the_same_time() -> None:
    verifier = IntrospectionVerifier("https://i.example/x", client_id="r", client_secret="s", audience=None)
    web = verifier._http = Web()
    same = [asyncio.create_task(verifier.verify("one")) for _ in range(50)]
    others = [asyncio.create_task(verifier.verify(f"token {number}")) for number in range(100)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert web.urls.count("one") == 1 and len(web.urls) == 32
    web.go.set()
    assert len({(await user).key for user in (*same, *others)}) == 1  # type: ignore[union-attr]
    assert web.urls.count("one") == 1


async def test_an_introspection_endpoint_that_is_too_slow_is_an_error_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcp_products.auth.resource_server.verifiers._INTROSPECTION_SECONDS", 0.02)
    verifier = IntrospectionVerifier("https://i.example/x", client_id="r", client_secret="s", audience=None)
    verifier._http = Web()
    with pytest.raises(AuthorizationError, match="did not respond"):
        await verifier.verify("one")
