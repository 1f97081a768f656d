"""Server cards: what an app serves as its card, and that it never says anything else than the running server."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.cli.commands import listening as running
from support.clients import connect as connect_newest
from support.http.sockets import listening
from support.installation.extras import optional
from support.processes import free_port

from mcp_generated import REVISIONS, App, Client, LocalError, connect, v2025_11_25
from mcp_generated.auth import ResourceServer
from mcp_generated.http import ServerCard

httpx2: Any = optional("httpx2")
CARD = "application/mcp-server-card+json"
OF_SSE = next(iter(REVISIONS))  # This version has HTTP+SSE alone.
CATALOG = "/.well-known/ai-catalog.json"


def weather(**settings: Any) -> App:
    app = App("weather", version="1.2.0", title="The weather", description="What the sky does.", **settings)
    app.add_tool(lambda: "sunny", name="today")
    return app


def identity(answer: dict[str, Any]) -> dict[str, Any]:
    """What initialize, or discovery, says of the server."""
    info: dict[str, Any] = answer.get("serverInfo") or answer["_meta"]["io.modelcontextprotocol/serverInfo"]
    return info


async def tools_of(client: Any) -> list[Any]:
    listed = await client.list_tools()
    return list(getattr(listed, "tools", listed))


async def got(
    application: Any, path: str, method: str = "GET", origin: str = "https://weather.example.com", **headers: str
) -> Any:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(application), base_url=origin) as client:
        return await client.request(method, path, headers={name.replace("_", "-"): headers[name] for name in headers})


def served(**settings: Any) -> Any:
    return weather().asgi(path="/mcp", hosts=["weather.example.com"], **{"card": True, **settings})


async def test_a_card_has_the_identity_the_endpoint_and_the_versions_of_the_app() -> None:
    response = await got(served(), "/mcp/server-card")
    assert (response.status_code, response.headers["content-type"]) == (200, CARD)
    assert response.json() == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example.weather/weather",
        "version": "1.2.0",
        "description": "What the sky does.",
        "title": "The weather",
        "remotes": [
            {
                "type": "streamable-http",
                "url": "https://weather.example.com/mcp",
                "supportedProtocolVersions": [*REVISIONS][1:],
            }
        ],
    }
    catalog = await got(served(), CATALOG)
    assert catalog.headers["content-type"] == "application/ai-catalog+json"
    assert catalog.json() == {
        "specVersion": "1.0",
        "entries": [
            {
                "identifier": "urn:air:weather.example.com:mcp:weather",
                "type": CARD,
                "url": "https://weather.example.com/mcp/server-card",
            }
        ],
    }


async def test_pages_may_read_a_card_and_caches_may_keep_it() -> None:
    first = await got(served(), "/mcp/server-card", origin="https://weather.example.com")
    assert first.headers["access-control-allow-origin"] == "*"
    assert first.headers["cache-control"] == "public, max-age=3600"
    again = await got(served(), "/mcp/server-card", if_none_match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert (await got(served(), "/mcp/server-card", "OPTIONS")).status_code == 204
    assert (await got(served(), "/mcp/server-card", "HEAD")).content == b""
    assert (await got(served(), "/mcp/server-card", "POST")).status_code == 405


async def test_a_card_is_not_made_for_a_host_that_the_endpoint_refuses() -> None:
    response = await got(served(), "/mcp/server-card", origin="https://evil.example")
    assert response.status_code == 421 and "evil" not in response.headers.get("etag", "")


async def test_without_card_there_is_none() -> None:
    assert (await got(served(card=False), "/mcp/server-card")).status_code == 404
    assert (await got(served(card=False), CATALOG)).status_code == 404


@pytest.mark.parametrize("version", REVISIONS)
async def test_a_card_says_what_initialize_says_in_each_version(version: str) -> None:
    """Each version of the card connects at the URL of the card, and its server has the same identity."""
    async with listening(weather().asgi(path="/mcp", card=True)) as port:
        async with httpx2.AsyncClient() as client:
            card = (await client.get(f"http://127.0.0.1:{port}/mcp/server-card")).json()
        [remote] = card["remotes"]
        if version not in remote["supportedProtocolVersions"]:
            assert version == OF_SSE
            return
        async with import_module(f"mcp_generated.{REVISIONS[version]}").Client.http(remote["url"]) as connected:
            info = identity(connected.server.model_dump(by_alias=True))
        assert connected.revision.id == version
    assert (card["name"].partition("/")[2], card["version"]) == (info["name"], info["version"])
    for key in ("title", "description"):  # Older versions have none.
        assert info.get(key) in (None, card[key])


async def test_a_card_has_the_versions_that_are_served_and_no_others() -> None:
    chosen = [*REVISIONS][2:4]
    card = (await got(served(revisions=chosen), "/mcp/server-card")).json()
    assert card["remotes"][0]["supportedProtocolVersions"] == chosen


async def test_what_the_author_says_besides_is_in_the_card() -> None:
    card = ServerCard(
        name="com.example/sky",
        description="The sky.",
        url="https://api.example.com/mcp",
        repository="https://github.com/example/sky",
    )
    document = (await got(served(card=card), "/mcp/server-card")).json()
    assert (document["name"], document["description"]) == ("com.example/sky", "The sky.")
    assert document["remotes"][0]["url"] == "https://api.example.com/mcp"
    assert document["repository"] == {"url": "https://github.com/example/sky", "source": "github"}


async def test_a_mounted_app_and_a_starlette_application_have_a_card() -> None:
    mounted = weather().asgi(card=True, hosts=["weather.example.com"])

    async def site(scope: Any, receive: Any, send: Any) -> None:
        await mounted({**scope, "root_path": "/apps"}, receive, send)

    card = (await got(site, "/apps/server-card")).json()
    assert card["remotes"][0]["url"] == "https://weather.example.com/apps"
    application = weather(card=True).http_app(path="/tools", hosts=["weather.example.com"])
    assert (await got(application, "/tools/server-card")).json()["remotes"][0]["url"].endswith("/tools")


async def test_a_card_needs_no_token_and_the_endpoint_does() -> None:
    class Nobody:
        async def verify(self, token: str) -> None:
            return None

    auth = ResourceServer("https://weather.example.com/mcp", ["https://issuer.example"], verifier=Nobody())
    application = served(auth=auth)
    assert (await got(application, "/mcp/server-card")).status_code == 200
    assert (await got(application, CATALOG)).status_code == 200
    assert (await got(application, "/mcp", "GET")).status_code == 401


@pytest.mark.parametrize(
    ("app", "message"),
    [
        (App("weather", version="1.0", description="x" * 158), "card=: the description has 158 characters, and a card"),
        (App("the weather", version="1.0"), "card=: the name 'the weather' has other characters than letters"),
    ],
)
def test_an_app_without_a_possible_card_is_refused_before_it_serves(app: App, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        app.asgi(card=True)
    assert app.asgi(card=ServerCard(name="com.example/weather", description="The weather.")) is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "weather"}, "must be reverse DNS with one slash"),
        ({"description": ""}, "the description has 0 characters"),
        ({"url": "example.com/mcp"}, "must be a URL"),
        ({"repository": "https://example.com/x"}, "is not a URL of github.com or gitlab.com; leave it out"),
    ],
)
def test_a_wrong_card_names_the_value_and_the_rule(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        ServerCard(**settings)


async def test_a_host_leads_every_client_to_the_endpoint() -> None:
    async with listening(weather().asgi(path="/deep/mcp", card=True)) as port:
        host = f"http://127.0.0.1:{port}"
        for client in (connect(host), Client(host), connect_newest(host), v2025_11_25.Client.http(host)):
            async with client as connected:
                assert [tool.name for tool in await tools_of(connected)] == ["today"]


@pytest.mark.long
async def test_a_program_that_runs_with_a_card_is_found_by_its_host(tmp_path: Path) -> None:
    port = free_port()
    source = "from mcp_generated import App\napp = App('shop', version='1.0')\napp.tool(name='one')(lambda: 1)\n"
    (tmp_path / "server.py").write_text(f"{source}app.run('http', port={port}, path='/deep', card=True)\n")
    with running([sys.executable, str(tmp_path / "server.py")], port):
        async with connect(f"http://127.0.0.1:{port}") as client:
            assert [tool.name for tool in await tools_of(client)] == ["one"]
