"""Who logs in and how: code without an event loop, the command line, and a browser that comes back to this machine."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import httpx2
import pytest
from click.testing import CliRunner
from support.auth.client_servers import REDIRECT, World, town, visit
from support.clients import connect

from mcp_codegen.cli.main import main
from mcp_generated.v2025_11_25 import SyncClient
from mcp_products.auth.client.browser import LoopbackBrowser
from mcp_products.auth.client.grants import AuthorizationCode
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.storage import InMemoryTokenStorage
from mcp_runtime.errors import AuthorizationError, HTTPStatusError
from mcp_runtime.transports.http_client.connection import HTTPOptions

# What `webbrowser` starts for a person: somebody who agrees at once.
AGREES = f'{sys.executable} -c "import sys; from urllib.request import urlopen; urlopen(sys.argv[1]).read()" %s'


@contextmanager
def in_thread() -> Iterator[World]:
    """A town, in a thread of its own."""
    started: list[tuple[World, asyncio.AbstractEventLoop, asyncio.Event]] = []
    ready = threading.Event()

    async def live() -> None:
        async with town() as world:
            started.append((world, asyncio.get_running_loop(), asyncio.Event()))
            ready.set()
            await started[0][2].wait()

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    assert ready.wait(60)
    world, loop, over = started[0]
    try:
        yield world
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(60)


def codegen(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mcp_codegen", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **env})


def test_synchronous_clients_log_in_and_share_what_they_got() -> None:
    with in_thread() as world:
        storage = InMemoryTokenStorage()
        for _ in range(2):
            auth = OAuthClientProvider(world.url, AuthorizationCode(visit, REDIRECT), storage=storage)
            with SyncClient.http(world.url, http=HTTPOptions(auth=auth)) as client:
                assert [tool.name for tool in client.list_tools().tools] == ["look"]
        assert len(world.params_of("/authorize")) == 1
        needs_token = (
            r"the server requires a token; set auth= of Client\(\) or HTTPOptions\(\), or headers of its entry"
        )
        with pytest.raises(HTTPStatusError, match=needs_token), SyncClient.http(world.url):
            pass
        with (
            pytest.raises(HTTPStatusError, match="the server does not accept the token"),
            SyncClient.http(world.url, http=HTTPOptions(headers={"Authorization": "Bearer s3cret"})),
        ):
            pass


@pytest.mark.long
def test_the_command_line_logs_in_with_a_browser_and_keeps_it_or_takes_a_header(tmp_path: Path) -> None:
    with in_thread() as world:
        refused = codegen("inspect", "--json", world.url)
        assert refused.returncode == 2 and "use --login for a browser login" in refused.stderr
        tokens = tmp_path / "tokens.json"
        shown = codegen("inspect", "--json", "--tokens", str(tokens), world.url, BROWSER=AGREES)
        assert shown.returncode == 0, shown.stderr
        assert [tool["name"] for tool in json.loads(shown.stdout)["tools"]] == ["look"]
        assert f"to log in, open {world.origin}/authorize?" in shown.stderr and world.valid not in shown.stderr
        again = codegen("tools", "--from", world.url, "--tokens", str(tokens))
        assert again.returncode == 0 and "def look" in again.stdout and "to log in" not in again.stderr
        header = f"Authorization: Bearer {world.valid}"
        assert codegen("inspect", "--json", "--header", header, world.url).stdout == shown.stdout
        config = tmp_path / "mcp.json"
        entry = {"url": world.url, "headers": {"Authorization": f"Bearer {world.valid}"}}
        config.write_text(json.dumps({"servers": {"looking": entry}}))
        assert codegen("inspect", "--json", "--config", str(config), "--server", "looking").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "--header", "no colon", "http://127.0.0.1:9/mcp"),
        ("inspect", "--header", "x: a\r\ny: b", "http://127.0.0.1:9/mcp"),
        ("inspect", "--login", "--", "python", "server.py"),
        ("tools", "--tokens", "t.json", "--from", "python server.py"),
    ],
)
def test_a_way_in_that_a_server_does_not_have_is_told(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


# ---- the way back to this machine ------------------------------------------------------------------------------------


def test_a_browser_answers_strangers_without_ending_the_login() -> None:
    answers: list[tuple[int, str]] = []

    def person(url: str) -> None:
        [back] = parse_qs(urlsplit(url).query)["redirect_uri"]
        with httpx2.Client(verify=False) as web:
            idle = socket.create_connection(("127.0.0.1", urlsplit(back).port or 0))
            for target in (
                back.replace("/callback", "/other"),
                f"{back}/more?code=c&state=right",
                f"{back}?code=stolen&state=wrong",
                f"{back}?code=stolen",
                f"{back}?error=<script>alert(1)</script>&state=wrong",
                f"{back}?{'&'.join('a=b' for _ in range(60))}",
                f"{back}?{'x' * 9000}",
                f"{back}?code=first&state=right",
                f"{back}?code=second&state=right",
            ):
                try:
                    answer = web.get(target)
                    answers.append((answer.status_code, answer.text))
                except httpx2.HTTPError:
                    answers.append((0, ""))
            idle.close()

    with closing(LoopbackBrowser(open_url=person)) as browser:
        url = f"https://as.example/authorize?state=right&redirect_uri={browser.redirect_uri}"
        assert asyncio.run(browser(url)) == f"{browser.redirect_uri}?code=first&state=right"
    assert [status for status, _ in answers[:8]] == [404, 404, 400, 400, 400, 400, 404, 200]
    assert not any("script" in text or "stolen" in text for _, text in answers)


def test_the_way_back_is_on_this_machine_and_closed_when_nobody_is_awaited() -> None:
    def reachable() -> bool:
        try:
            socket.create_connection(("127.0.0.1", urlsplit(browser.redirect_uri).port or 0), timeout=5).close()
        except OSError:
            return False
        return True

    async def wait() -> None:
        waiting = asyncio.create_task(browser("https://as.example/authorize?state=s"))
        await asyncio.to_thread(opened.wait, 60)
        waiting.cancel()
        await asyncio.wait([waiting])

    seen: list[bool] = []
    opened = threading.Event()
    with closing(LoopbackBrowser(open_url=lambda url: (seen.append(reachable()), opened.set()))) as browser:
        assert browser.redirect_uri.startswith("http://127.0.0.1:") and not reachable()
        for times in (1, 2):  # The same port, a second time.
            asyncio.run(wait())
            assert seen == [True] * times and not reachable()
            opened.clear()


async def test_a_person_who_does_not_come_back_is_waited_for_as_long_as_was_said() -> None:
    async def nobody(url: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with town() as world:
        auth = OAuthClientProvider(world.url, AuthorizationCode(nobody, REDIRECT, timeout=0.05))
        with pytest.raises(AuthorizationError, match="did not log in within 0.05 seconds"):
            async with connect(world.url, http=HTTPOptions(auth=auth)):
                pass
        auth = OAuthClientProvider(world.url, AuthorizationCode(visit, REDIRECT, timeout=1000))
        client = connect(world.url, http=HTTPOptions(auth=auth))
        assert client._connect_options.timeout == 1060
        assert not world.params_of("/token")


def test_an_open_connection_does_not_hold_up_the_end_of_a_login() -> None:
    idle: list[socket.socket] = []

    def person(url: str) -> None:
        idle.append(socket.create_connection(("127.0.0.1", urlsplit(browser.redirect_uri).port or 0)))
        urlopen(f"{browser.redirect_uri}?code=c&state=s", timeout=30).read()

    with closing(LoopbackBrowser(open_url=person)) as browser:
        assert asyncio.run(browser("https://as.example/authorize?state=s")).endswith("code=c&state=s")
    assert idle[0].recv(1) == b""
    idle[0].close()


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(AuthorizationError, match="cannot be used"):
        LoopbackBrowser(port=listener.getsockname()[1])


def test_a_client_that_comes_back_elsewhere_registers_anew() -> None:
    storage = InMemoryTokenStorage()

    async def log_in(world: World, redirect: str) -> None:
        auth = OAuthClientProvider(world.url, AuthorizationCode(visit, redirect), storage=storage)
        async with httpx2.AsyncClient(auth=auth, verify=False) as web:
            await web.get(world.url)
        stored = await storage.load(world.url)
        assert stored is not None and stored.client.redirect_uri == redirect
        world.valid = "another"

    with in_thread() as world:
        world.replies["/token"] = (200, {}, {"access_token": "t", "token_type": "bearer"})
        for redirect in (REDIRECT, REDIRECT, "http://127.0.0.1:8/callback"):
            asyncio.run(log_in(world, redirect))
        assert [registration["redirect_uris"] for registration in world.params_of("/register")] == [
            [REDIRECT],
            ["http://127.0.0.1:8/callback"],
        ]
