"""Requests, threads, logins and processes that need a token at the same time, and users who refuse a part."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

import httpx2
import pytest
from support.auth.client_servers import REDIRECT, Got, Reply, World, served, visit

from mcp_products.auth.client.browser import LoopbackBrowser
from mcp_products.auth.client.grants import AuthorizationCode
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.storage import FileTokenStorage
from mcp_runtime.errors import AuthorizationError


class Scoped(World):
    """What is at /mcp/NAME needs the scope NAME. A user refuses the scope `refused`."""

    granted: frozenset[str] = frozenset()
    asked: tuple[str, ...] = ()

    def respond(self, method: str, target: str, headers: dict[str, str], body: str) -> Reply:
        at = urlsplit(target)
        params = dict(parse_qsl(at.query))
        needed = at.path.removeprefix("/mcp/")
        if needed != at.path and headers.get("authorization") == f"Bearer {self.valid}":
            self.asked += (needed,)
            challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
            return (200, {}, "in") if needed in self.granted else (403, {"www-authenticate": challenge}, "")
        if at.path == "/authorize" and "refused" in params.get("scope", ""):
            self.seen.append(Got(method, at.path, at.query, params, headers))
            return 302, {"location": f"{params['redirect_uri']}?error=access_denied&state={params['state']}"}, ""
        if at.path == "/authorize":
            self.granted = frozenset(params.get("scope", "").split())
        return super().respond(method, "/mcp" if needed != at.path else target, headers, body)


class Undecided:
    """A user who thinks about a scope, when no other one is requested with it."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.is_asked = asyncio.Event()
        self.decides = asyncio.Event()

    async def __call__(self, url: str) -> str:
        if dict(parse_qsl(urlsplit(url).query)).get("scope") == self.scope:
            self.is_asked.set()
            await self.decides.wait()
        return await visit(url)


class Bound(World):
    """Tokens are bound to keys, and a proof has the nonce."""

    nonce = "first"
    refuses_proofs = False

    def respond(self, method: str, target: str, headers: dict[str, str], body: str) -> Reply:
        status, fields, answer = super().respond(method, target, headers, body)
        if target == "/token":
            return status, fields, {**answer, "token_type": "DPoP"}
        if target != "/mcp":
            return status, fields, answer
        if not headers.get("authorization", "").startswith("DPoP "):
            return 401, {"www-authenticate": "DPoP"}, ""
        claims = json.loads(urlsafe_b64decode(headers["dpop"].split(".")[1] + "=="))
        if self.refuses_proofs:
            return 401, {"www-authenticate": 'DPoP error="invalid_dpop_proof"'}, ""
        if claims.get("nonce") == self.nonce:
            return 200, {}, "in"
        return 401, {"www-authenticate": 'DPoP error="use_dpop_nonce"', "dpop-nonce": self.nonce}, ""


def provider(world: World, **settings: object) -> OAuthClientProvider:
    return OAuthClientProvider(world.url, AuthorizationCode(visit, REDIRECT), **settings)  # type: ignore[arg-type]


@pytest.fixture
def scoped() -> Iterator[Scoped]:
    with served(Scoped()) as world:
        yield world


@pytest.fixture
def bound() -> Iterator[Bound]:
    with served(Bound()) as world:
        yield world


async def test_requests_that_lack_scopes_at_the_same_time_share_a_login_for_all_of_them(scoped: Scoped) -> None:
    scoped.granted = frozenset({"none"})
    async with httpx2.AsyncClient(auth=provider(scoped), timeout=60) as client:
        assert (await client.get(scoped.url)).status_code == 200
        answers = await asyncio.gather(*(client.get(f"{scoped.url}/scope-{number}") for number in range(12)))
    assert [answer.status_code for answer in answers] == [200] * 12
    assert len(scoped.params_of("/authorize")) <= 4


async def test_a_scope_that_the_user_refuses_costs_the_request_that_needs_it_and_no_other(scoped: Scoped) -> None:
    async with httpx2.AsyncClient(auth=provider(scoped), timeout=60) as client:
        assert (await client.get(scoped.url)).status_code == 200
        for _ in range(2):
            with pytest.raises(AuthorizationError, match="the login was denied"):
                await client.get(f"{scoped.url}/refused")
            assert (await client.get(scoped.url)).status_code == 200
        assert (await client.get(f"{scoped.url}/other")).status_code == 200
    asked = [request.get("scope") for request in scoped.params_of("/authorize")]
    assert asked == [None, "refused", "refused", "other"]


async def test_other_requests_go_on_while_a_user_decides_about_a_scope(scoped: Scoped) -> None:
    user = Undecided("slow")
    auth = OAuthClientProvider(scoped.url, AuthorizationCode(user, REDIRECT))
    async with httpx2.AsyncClient(auth=auth, timeout=60) as client:
        assert (await client.get(scoped.url)).status_code == 200
        waiting = asyncio.create_task(client.get(f"{scoped.url}/slow"))
        await user.is_asked.wait()
        assert (await client.get(scoped.url)).status_code == 200
        assert not waiting.done()
        user.decides.set()
        assert (await waiting).status_code == 200


async def test_a_request_that_joins_a_login_without_its_scope_gets_one_with_it(scoped: Scoped) -> None:
    user = Undecided("first")
    auth = OAuthClientProvider(scoped.url, AuthorizationCode(user, REDIRECT))
    async with httpx2.AsyncClient(auth=auth, timeout=60) as client:
        assert (await client.get(scoped.url)).status_code == 200
        first = asyncio.create_task(client.get(f"{scoped.url}/first"))
        await user.is_asked.wait()
        second = asyncio.create_task(client.get(f"{scoped.url}/second"))
        while "second" not in scoped.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # It has its answer, and waits for the login.
        user.decides.set()
        assert [(await first).status_code, (await second).status_code] == [200, 200]
    assert [request.get("scope") for request in scoped.params_of("/authorize")] == [None, "first", "first second"]
    assert scoped.asked.count("second") == 2, "it is not sent again before it has the scope"


class Held(Scoped):
    """The first answer of /mcp/held comes after a login, and is about the token that it replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.has_arrived = threading.Event()
        self.goes_on = threading.Event()

    def respond(self, method: str, target: str, headers: dict[str, str], body: str) -> Reply:
        if target == "/mcp/held" and not self.has_arrived.is_set():
            self.has_arrived.set()
            assert self.goes_on.wait(30)
            return 403, {"www-authenticate": 'Bearer error="insufficient_scope", scope="shared"'}, ""
        return super().respond(method, target.replace("held", "shared"), headers, body)


async def test_a_refusal_of_an_older_token_is_not_one_of_the_newest(scoped: Scoped) -> None:
    with served(Held()) as world:
        assert isinstance(world, Held)
        async with httpx2.AsyncClient(auth=provider(world), timeout=60) as client:
            assert (await client.get(world.url)).status_code == 200
            held = asyncio.create_task(client.get(f"{world.url}/held"))
            await asyncio.to_thread(world.has_arrived.wait, 30)
            assert (await client.get(f"{world.url}/shared")).status_code == 200
            world.goes_on.set()
            assert (await held).status_code == 200
        assert [request.get("scope") for request in world.params_of("/authorize")] == [None, "shared"]


async def test_a_new_nonce_is_used_by_all_requests_that_had_the_old_one(bound: Bound) -> None:
    async with httpx2.AsyncClient(auth=provider(bound, dpop=True), timeout=60) as client:
        assert (await client.get(bound.url)).status_code == 200
        bound.nonce = "second"
        answers = await asyncio.gather(*(client.get(bound.url) for _ in range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len(bound.params_of("/token")) == 1


@pytest.mark.parametrize(("behind", "said"), [(300, r"clocks .* differ by (29\d|30\d) seconds"), (0, "its URL")])
async def test_a_server_that_refuses_proofs_is_not_asked_without_end_and_the_clock_named(
    bound: Bound, behind: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound.refuses_proofs = True
    monkeypatch.setattr("mcp_runtime.aio.clock.wall", lambda: time.time() - behind)
    async with httpx2.AsyncClient(auth=provider(bound, dpop=True), timeout=60) as client:
        with pytest.raises(AuthorizationError, match=said):
            await client.get(bound.url)
    assert len(bound.params_of("/token")) == 1


async def test_processes_with_keys_of_their_own_share_a_file_and_no_token(bound: Bound, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    providers = [provider(bound, dpop=True, storage=FileTokenStorage(file)) for _ in range(2)]
    for _ in range(3):
        for auth in providers:
            async with httpx2.AsyncClient(auth=auth, timeout=60) as client:
                assert (await client.get(bound.url)).status_code == 200
    assert len(bound.params_of("/authorize")) == 2 and len(bound.params_of("/register")) == 1
    assert "secret" not in file.read_text("utf-8").replace("client_secret", "")


def test_threads_share_one_provider_and_refresh_a_token_once(scoped: Scoped) -> None:
    scoped.lasts = 0.4
    auth = provider(scoped)
    statuses: list[int] = []

    async def ask() -> None:
        async with httpx2.AsyncClient(auth=auth, timeout=60) as client:
            for _ in range(15):
                statuses.append((await client.get(scoped.url)).status_code)
                await asyncio.sleep(0.05)

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 60 and len(scoped.params_of("/authorize")) == 1


# ---- one browser -----------------------------------------------------------------------------------------------------


def test_clients_of_two_servers_log_in_with_one_browser_at_the_same_time() -> None:
    def person(url: str) -> None:
        threading.Thread(target=lambda: urlopen(url, timeout=30).read()).start()

    async def both(worlds: list[World]) -> list[int]:
        with closing(LoopbackBrowser(open_url=person)) as browser:
            grant = AuthorizationCode(browser, browser.redirect_uri)
            answers: list[int] = []
            async with asyncio.TaskGroup() as tasks:
                for world in worlds:
                    tasks.create_task(ask(OAuthClientProvider(world.url, grant), world, answers))
            return answers

    async def ask(auth: OAuthClientProvider, world: World, answers: list[int]) -> None:
        async with httpx2.AsyncClient(auth=auth, timeout=60) as client:
            answers.append((await client.get(world.url)).status_code)

    with ExitStack() as stack:
        assert asyncio.run(both([stack.enter_context(served(World())) for _ in range(2)])) == [200, 200]


async def test_a_machine_without_a_browser_is_told_what_to_write() -> None:
    with closing(LoopbackBrowser(open_url=lambda url: False)) as browser:
        with pytest.raises(AuthorizationError, match=r"no browser can be opened .* LoopbackBrowser\(open_url=…\)"):
            await browser("https://as.example/authorize?state=s")


async def test_what_opens_the_url_may_be_a_coroutine_function() -> None:
    async def person(url: str) -> None:
        await asyncio.to_thread(lambda: urlopen(f"{browser.redirect_uri}?code=c&state=s", timeout=30).read())

    with closing(LoopbackBrowser(open_url=person)) as browser:
        assert (await browser("https://as.example/authorize?state=s")).endswith("code=c&state=s")
