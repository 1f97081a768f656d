"""DPoP proofs at several workers of one endpoint: a proof is used once, and a nonce of one is that of all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey
from support.auth.resource_server import PROTECTED, Authority, Endpoint, proof
from support.endpoints import server_of
from support.http.in_process import asking
from support.stores.failing import FailingStore
from support.stores.homes import FEW_HOMES, open_home, place_of

from mcp_generated import LocalError
from mcp_generated.auth import DPoPVerifier, InMemoryReplayCache, ResourceServer, StoreReplayCache
from mcp_generated.http import InMemoryStore

KEY = ECKey.generate_key("P-256", private=True)
REV, URL = PROTECTED[-1], "http://localhost/mcp"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


@asynccontextmanager
async def two_workers(issuer: Authority, stores: list[Any], **dpop: Any) -> AsyncIterator[list[Endpoint]]:
    """Two workers of an endpoint that share a store; `store=` of `asgi` is all that they are given."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        return REV.text("called")

    async with AsyncExitStack() as stack:
        workers: list[Endpoint] = []
        for store in stores:
            auth = ResourceServer(URL, [issuer.name], dpop=DPoPVerifier(**dpop))
            application = server_of(REV, call_tool=call_tool).asgi(
                revisions=[REV.id], path="/mcp", auth=auth, store=store
            )
            stack.push_async_callback(application.close)
            web = await stack.enter_async_context(asking(application))
            workers.append(Endpoint(URL, REV, web, []))
        yield workers


async def show(at: Endpoint, token: str, shown: str) -> httpx2.Response:
    return await at.call(None, authorization=f"DPoP {token}", dpop=shown)


async def test_a_proof_that_one_worker_has_accepted_is_refused_by_all(issuer: Authority, place: Any) -> None:
    async with two_workers(issuer, [open_home(place), open_home(place)]) as workers:
        token = issuer.token(URL, cnf={"jkt": KEY.thumbprint()})
        for first, second in (workers, workers[::-1]):
            shown = proof(KEY, "POST", URL, token)
            assert (await show(first, token, shown)).status_code == 200
            assert [(await show(worker, token, shown)).status_code for worker in (second, first)] == [401, 401]


async def test_a_nonce_of_one_worker_is_accepted_by_the_other(issuer: Authority, place: Any) -> None:
    async with two_workers(issuer, [open_home(place), open_home(place)], require_nonce=True) as (first, second):
        token = issuer.token(URL, cnf={"jkt": KEY.thumbprint()})
        refused = await show(first, token, proof(KEY, "POST", URL, token))
        assert refused.status_code == 401
        accepted = await show(second, token, proof(KEY, "POST", URL, token, nonce=refused.headers["dpop-nonce"]))
        assert accepted.status_code == 200


async def test_no_proof_is_accepted_while_the_store_cannot_be_reached(issuer: Authority) -> None:
    store = FailingStore()
    async with two_workers(issuer, [store]) as (worker,):
        token = issuer.token(URL, cnf={"jkt": KEY.thumbprint()})
        assert (await show(worker, token, proof(KEY, "POST", URL, token))).status_code == 200
        shown = proof(KEY, "POST", URL, token)
        store.outage.is_down = True
        refused = await show(worker, token, shown)
        assert refused.status_code == 503 and refused.headers["retry-after"] == "5"
        store.outage.is_down = False
        assert (await show(worker, token, shown)).status_code == 200


async def test_a_lost_answer_of_the_store_lets_a_proof_count_once(issuer: Authority) -> None:
    store = FailingStore()
    async with two_workers(issuer, [store]) as (worker,):
        token = issuer.token(URL, cnf={"jkt": KEY.thumbprint()})
        shown = proof(KEY, "POST", URL, token)
        store.outage.lost_answers.add("put")
        assert [(await show(worker, token, shown)).status_code for _ in range(2)] == [200, 401]


async def test_a_replay_cache_and_a_secret_of_the_users_own_are_left_alone(issuer: Authority) -> None:
    store, cache = InMemoryStore(), InMemoryReplayCache()
    own: dict[str, Any] = {"replay_cache": cache, "nonce_secret": b"s" * 32, "require_nonce": True}
    async with two_workers(issuer, [store], **own) as (worker,):
        token = issuer.token(URL, cnf={"jkt": KEY.thumbprint()})
        refused = await show(worker, token, proof(KEY, "POST", URL, token))
        shown = proof(KEY, "POST", URL, token, nonce=refused.headers["dpop-nonce"])
        assert (await show(worker, token, shown)).status_code == 200
    assert len(cache._ids) == 1 and not any("dpop" in key for key in store._records)


async def test_one_key_has_a_limit_and_takes_nothing_from_others() -> None:
    now = 1000.0
    cache = StoreReplayCache(InMemoryStore(lambda: now), clock=lambda: now)
    accepted = [await cache.add(f"greedy.{number}", now + 100) for number in range(10_001)]
    assert accepted == [True] * 10_000 + [False] and await cache.add("other.1", now + 100)
    now = 1101.0
    assert await cache.add("greedy.1", now + 100) and not await cache.add("greedy.1", now + 100)


async def test_a_cache_to_wait_for_is_checked_with_verify() -> None:
    verifier = DPoPVerifier(replay_cache=StoreReplayCache(InMemoryStore()))
    shown = proof(KEY, "POST", URL, "t")
    with pytest.raises(LocalError, match=r"await verifier\.verify"):
        verifier.check(shown, "POST", URL, "t", KEY.thumbprint())
