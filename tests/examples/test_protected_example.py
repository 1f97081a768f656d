"""The example of a protected server: real processes, a client that logs in, and a person who agrees."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from support.auth import protected_example as example
from support.clients import connect
from support.peers import driven, node_peer, python_peer
from support.project import PEER_DRIVERS

from mcp_generated.v2025_03_26 import Client
from mcp_products.auth.client.browser import LoopbackBrowser
from mcp_products.auth.client.grants import AuthorizationCode
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_runtime.errors import AuthorizationError
from mcp_runtime.transports.http_client.connection import HTTPOptions

DEADLINE = 60.0


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """The URLs of the authorization server and of the MCP server, each a process."""
    with example.both() as urls:
        yield urls


@pytest.mark.long
def test_a_client_logs_in_once_and_its_calls_are_those_of_the_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, token_file, opened = example.client(), tmp_path / "tokens.json", 0

    def person(url: str) -> None:
        nonlocal opened
        opened += 1
        example.agree(url)

    with example.both() as (_issuer, url):
        for _ in range(2):
            asyncio.run(asyncio.wait_for(module.main(url, str(token_file), open_url=person), DEADLINE))
        assert httpx2.post(url, json={}).status_code == 401
    assert capsys.readouterr().out.splitlines() == [
        "ada has 1 notes",
        "buy milk",
        "ada has 2 notes",
        "buy milk; buy milk",
    ]
    assert opened == 1 and stat.S_IMODE(token_file.stat().st_mode) == 0o600


@pytest.mark.long
def test_a_person_who_does_not_agree_gives_the_client_nothing(served: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(AuthorizationError, match="access_denied"):
        run = example.client().main(served[1], str(tmp_path / "tokens"), open_url=lambda at: example.agree(at, "deny"))
        asyncio.run(asyncio.wait_for(run, DEADLINE))


@pytest.mark.long
def test_a_tool_acts_at_a_third_party_for_whoever_signed_in_there(served: tuple[str, str]) -> None:
    third, _ = served

    async def run(url: str) -> None:
        browser = LoopbackBrowser(open_url=example.agree)
        auth = OAuthClientProvider(url, AuthorizationCode(browser, browser.redirect_uri))
        try:
            async with connect(url, http=HTTPOptions(auth=auth)) as client:
                result = await client.call_tool(name="my_account", arguments={})
                assert result.content[0].text == "ada may notes:read there"
        finally:
            browser.close()

    with example.running("delegated.py", "0", third) as url:
        asyncio.run(asyncio.wait_for(run(url), DEADLINE))


@pytest.mark.long
def test_who_signed_in_is_sent_to_no_other_site(served: tuple[str, str]) -> None:
    for back in (
        "https://evil.example/",
        "//evil.example/authorize?",
        "/authorize",
        "/authorize?next=https://evil.example",
    ):
        with httpx2.Client(trust_env=False) as web:
            form = {"name": "ada", "password": example.PASSWORD}
            answer = web.post(f"{served[0]}/signin", params={"return_to": back}, data=form)
        assert answer.status_code == 303
        assert answer.headers["location"] == (back if back.startswith("/authorize?") else "/signin")


@pytest.mark.clause("2025-03-26/authorization/01", "2025-03-26/authorization/20")
@pytest.mark.long
def test_one_process_is_server_and_authorization_server_for_clients_of_the_revision_that_wants_it_so() -> None:
    async def run(url: str) -> None:
        browser = LoopbackBrowser(open_url=example.agree)
        grant = AuthorizationCode(browser, browser.redirect_uri)
        auth = OAuthClientProvider(url, grant)  # The revision of the client says where the authorization server is.
        try:
            async with Client.http(url, http=HTTPOptions(auth=auth)) as client:
                result = await client.call_tool(name="add_note", arguments={"text": "tea"})
                assert result.content[0].text == "ada has 1 notes"
        finally:
            browser.close()

    with example.running("one_process.py", "0") as url:
        asyncio.run(asyncio.wait_for(run(url), DEADLINE))


@pytest.mark.edges("mcp==2")
@pytest.mark.long
@pytest.mark.parametrize("sdk", ["mcp==1.30.0", "mcp==2.3.0"])
def test_the_official_python_client_logs_in_to_it_too(served: tuple[str, str], sdk: str) -> None:
    issuer, url = served
    got = driven(python_peer(sdk), "python_sdk_login.py", url)
    assert got["said"].startswith("ada has ") and got["iss"] == issuer
    assert set(got["scope"].split()) == {"notes:read", "notes:write"}


@pytest.mark.edges("client@")
@pytest.mark.long
@pytest.mark.parametrize("package", ["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0"])
def test_the_official_typescript_client_logs_in_to_it_too(served: tuple[str, str], package: str) -> None:
    issuer, url = served
    driver = PEER_DRIVERS / "typescript_login.mjs"
    command = ["node", str(driver), str(node_peer(package)), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["said"].startswith("ada has ") and got["iss"] == issuer and got["refused"] == "UnauthorizedError"
    assert set(got["scope"].split()) == {"notes:read", "notes:write"}
