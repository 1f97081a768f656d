"""What a proxy shows of its target, the reasons of cancellations, and the message without a target."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.sockets import listening
from support.installation.extras import optional

from mcp_generated import App, ClientCapabilityError, Context
from mcp_generated.v2026_07_28 import Client, Server
from mcp_runtime.protocol.model_methods import implementation_of

compat = optional("mcp_generated.compat")

ICONS: Any = [{"src": "https://example.com/icon.png", "mimeType": "image/png"}]
SHOWN: dict[str, Any] = {
    "title": "The shop",
    "description": "It sells tea.",
    "icons": ICONS,
    "website_url": "https://example.com",
}
CAPABILITIES = {"experimental": {"acme/x": {"a": 1}}, "extensions": {"io.modelcontextprotocol/ui": {}}}
RULES = "Prices are in euros."


def shop() -> App:
    """Return a target."""
    app = App("shop", RULES, capabilities=CAPABILITIES, **SHOWN)

    @app.tool
    def price() -> int:
        return 3

    return app


async def shown(front: App, before: int = 0) -> dict[str, Any]:
    """Return what a client gets that connects to the front, after so many other clients."""
    for _ in range(before):
        async with connect(front) as client:
            await client.list_tools()
    async with connect(front, revisions=["2025-11-25"]) as client:
        fields = client.server.model_dump()
        info = implementation_of(client.server)
        identity = {"title", "description", "icons", "websiteUrl"}
        return {
            "instructions": client.server.instructions,
            "capabilities": fields["capabilities"],
            **{name: info.get(name) for name in identity},
        }


def check(seen: dict[str, Any], with_capabilities: bool = True) -> None:
    """Check that a client has got the details of the target."""
    assert seen["instructions"] == RULES
    assert {name: seen[name] for name in ("title", "description", "icons")} == {
        name: SHOWN[name] for name in ("title", "description", "icons")
    }
    assert seen["websiteUrl"] == SHOWN["website_url"]
    if with_capabilities:
        assert seen["capabilities"]["experimental"] == CAPABILITIES["experimental"]


async def test_the_details_of_an_app_a_server_and_a_connected_client_are_known_at_once() -> None:
    target = shop()
    check(await shown(App.proxy(target)))
    check(await shown(App.proxy(target.server)))
    async with connect(target) as connected:
        check(await shown(App.proxy(connected)))


async def test_the_details_of_others_are_known_when_a_client_has_connected_to_them() -> None:
    asgi = shop().asgi()
    async with listening(asgi) as port:
        front = App.proxy(f"http://127.0.0.1:{port}/mcp")
        check(await shown(front, before=1), with_capabilities=False)


async def test_what_the_author_of_the_proxy_has_set_stays() -> None:
    seen = await shown(App.proxy(shop(), instructions="Ask first.", title="Front"))
    assert (seen["instructions"], seen["title"]) == ("Ask first.", "Front")
    assert seen["description"] == SHOWN["description"]


async def test_a_target_that_declares_nothing_adds_nothing() -> None:
    seen = await shown(App.proxy(Server(name="bare", version="1")))
    assert seen["instructions"] is None and seen["title"] is None
    assert "experimental" not in seen["capabilities"]


@among(ALL_REVISIONS)
@pytest.mark.parametrize("target_revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_the_reason_of_a_cancellation_reaches_the_target(rev: Rev, target_revision: str) -> None:
    target, started = App("target"), asyncio.Event()
    reasons: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()

    @target.tool
    async def wait() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            reasons.put_nowait(error.args)
            raise
        return ""

    async with connect(App.proxy(target, revisions=[target_revision]), revisions=[rev.id]) as client:
        call = asyncio.create_task(client.call_tool("wait"))
        await started.wait()
        call.cancel("the user has left")
        assert await reasons.get() == ("the user has left",)
        await asyncio.wait([call])


async def test_the_reason_of_a_target_that_needs_no_answer_reaches_the_client() -> None:
    target, shows = App("target"), asyncio.Event()
    reasons: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()

    @target.tool
    async def request(ctx: Context) -> str:
        form = asyncio.create_task(ctx.elicit("Who?", str))
        await shows.wait()
        form.cancel("found out")
        try:
            await form
        except (asyncio.CancelledError, ClientCapabilityError):
            return "known"
        return "answered"

    class Person(Client):
        async def on_elicit(self, ctx: Any, params: Any) -> Any:
            shows.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                reasons.put_nowait(error.args)
                raise

    front = App.proxy(target, revisions=["2025-11-25"])
    async with connect(front, client=Person, revisions=["2025-11-25"]) as client:
        result: Any = await client.call_tool("request")
        assert result.content[0].text == "known"
        assert await reasons.get() == ("found out",)


@pytest.mark.parametrize("server_class", ["App", "FastMCP"])
@pytest.mark.parametrize("keywords", [{}, {"name": "front"}])
def test_a_proxy_without_a_target_says_what_a_target_is(server_class: str, keywords: dict[str, Any]) -> None:
    made: Any = App if server_class == "App" else compat.FastMCP
    with pytest.raises(TypeError) as caught:
        made.proxy(**keywords)
    message = str(caught.value)
    assert message.startswith("proxy() needs a target") and "App.proxy(app)" in message
    assert len(message.splitlines()) <= 2
