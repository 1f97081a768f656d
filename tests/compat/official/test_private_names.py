"""Frameworks that subclass `FastMCP` and `Context` of the official SDK use private names, which do the same here."""

from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import Field

from mcp_generated.compat import Context, FastMCP, create_connected_server_and_client_session, types
from mcp_products.compat.forms.form import FORM

# The private names that frameworks use.
lowlevel = attrgetter("_mcp_server")
tools = attrgetter("_tool_manager")
resources = attrgetter("_resource_manager._resources")
prompts = attrgetter("_prompt_manager._prompts")


class OwnContext(Context):
    """The context of a framework, which declares attributes and has its own `log`."""

    registry: dict[str, int] = Field(default_factory=dict)
    agents: list[str] = []

    async def log(self, level: Any, message: str, *, logger_name: str | None = None) -> None:  # type: ignore[override]
        """Send a log message by the session of the request."""
        await self.request_context.session.send_log_message(level, f"own: {message}", logger_name)


class OwnServer(FastMCP):
    """A framework's server, whose functions get its own context."""

    def get_context(self) -> Any:
        """Return a context of the request that the low-level server serves."""
        server: Any = self
        return OwnContext(request_context=lowlevel(server).request_context, fastmcp=self)


async def test_functions_get_the_context_of_a_subclass() -> None:
    app = OwnServer("shop")
    heard: list[Any] = []

    @app.tool()
    async def work(ctx: Context) -> str:
        await ctx.info("begun")
        return f"{type(ctx).__name__} {ctx.fastmcp is app} {ctx.request_id == ctx.request_context.request_id}"

    async def hear(params: Any) -> None:
        heard.append(params.data)

    async with create_connected_server_and_client_session(app, logging_callback=hear) as session:
        assert (await session.call_tool("work")).content[0].text == "OwnContext True True"
    assert heard == ["own: begun"]


async def test_a_context_of_a_test_has_the_attributes_of_its_request() -> None:
    sent: list[Any] = []

    async def send(*values: Any) -> None:
        sent.append(values)

    request: Any = SimpleNamespace(request_id="7", session=SimpleNamespace(send_log_message=send))
    app = FastMCP("shop")
    ctx: Any = OwnContext(request_context=request, fastmcp=app)
    await ctx.log("info", "x")
    assert (ctx.request_id, ctx.session, ctx.fastmcp, sent) == ("7", request.session, app, [("info", "own: x", None)])


def test_a_context_without_a_request_has_its_fields_and_raises_else() -> None:
    one: Any = OwnContext()
    other: Any = OwnContext(agents=["a"])
    one.registry["x"] = 1
    one.agents.append("b")
    assert (other.registry, other.agents, OwnContext.agents) == ({}, ["a"], [])
    for name in ("session", "request_context", "fastmcp"):
        with pytest.raises(ValueError, match="outside of a request"):
            getattr(one, name)
    with pytest.raises(TypeError, match="OwnContext\\(\\) has no keyword 'agnets': a subclass may declare it"):
        OwnContext(agnets=["a"])


def test_the_copy_of_a_context_has_attributes_of_its_own() -> None:
    ctx: Any = OwnContext(agents=["a"])
    copied = ctx.model_copy(update={"agent": "b"})
    copied.nickname = "c"
    assert (type(copied), copied.agent, copied.agents is ctx.agents) == (OwnContext, "b", True)
    assert ctx.model_copy(deep=True).agents is not ctx.agents and not hasattr(ctx, "nickname")


async def test_handlers_of_the_low_level_server_hear_of_levels_and_subscriptions_and_complete() -> None:
    app: Any = FastMCP("shop")
    heard: list[Any] = []
    app.add_resource("shop://stock", lambda: "3")
    lowlevel(app).version = "3.1"

    @lowlevel(app).set_logging_level()
    async def set_level(level: Any) -> None:
        heard.append((level, lowlevel(app).request_context.method))

    @lowlevel(app).subscribe_resource()
    async def subscribe(uri: Any) -> None:
        heard.append(str(uri))

    @lowlevel(app).completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        return types.Completion(values=[argument.value + "!"])

    async with create_connected_server_and_client_session(app) as session:
        shown = await session.initialize()
        await session.set_logging_level("error")
        await session.subscribe_resource("shop://stock")
        ref = types.ResourceTemplateReference(type="ref/resource", uri="shop://{x}")
        completed = await session.complete(ref, {"name": "x", "value": "a"})
    assert heard == [("error", "logging/setLevel"), "shop://stock"]
    assert completed.completion.values == ["a!"]
    assert shown.serverInfo.version == "3.1" and shown.capabilities.completions is not None


async def test_completions_of_the_app_are_more_than_the_handler_of_a_framework() -> None:
    app: Any = FastMCP("shop")

    @lowlevel(app).completion()
    async def nothing(ref: Any, argument: Any, context: Any) -> Any:
        return None

    @app.resource("shop://{x}")
    def stock(x: str) -> str:
        return x

    @app.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        return types.Completion(values=["own"])

    async with create_connected_server_and_client_session(app) as session:
        ref = types.ResourceTemplateReference(type="ref/resource", uri="shop://{x}")
        assert (await session.complete(ref, {"name": "x", "value": "a"})).completion.values == ["own"]


async def test_what_wraps_the_handlers_sees_requests_and_results() -> None:
    app: Any = FastMCP("shop")
    app.add_tool(lambda text: text, "say")
    seen: list[Any] = []

    @lowlevel(app).set_logging_level()
    async def set_level(level: Any) -> None:
        seen.append(level)

    handlers = lowlevel(app).request_handlers
    for kind in (types.CallToolRequest, types.SetLevelRequest, types.ListToolsRequest):
        original = handlers[kind]

        async def wrapped(request: Any, original: Any = original) -> Any:
            seen.append(request.method)
            if request.method == "tools/call":
                request.params.arguments = {"text": "changed"}
            return await original(request)

        handlers[kind] = wrapped
    async with create_connected_server_and_client_session(app) as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == ["say"]
        assert (await session.call_tool("say", {"text": "x"})).content[0].text == "changed"
        await session.set_logging_level("error")
    assert [item for item in seen if item != "tools/list"] == ["tools/call", "logging/setLevel", "error"]
    assert "tools/list" in seen


async def test_the_tables_of_an_app_show_what_it_has() -> None:
    app: Any = FastMCP("shop", icons=[types.Icon(src="https://shop.example/icon.png")])

    @app.tool()
    def buy(count: int | None = None) -> str:
        """Buy."""
        return str(count)

    app.add_resource("shop://stock", lambda: "3")
    app.add_prompt(lambda: "x", "ask")
    tool = tools(app).get_tool("buy")
    assert tool.description == "Buy." and tools(app).get_tool("sell") is None
    assert [found.name for found in tools(app).list_tools()] == ["buy"]
    tool.parameters = {**tool.parameters, "properties": {"count": {"type": "integer"}}}
    assert (await app.list_tools())[0].input_schema.properties == {"count": {"type": "integer"}}
    assert [str(item.uri) for item in resources(app).values()] == ["shop://stock"]
    assert [*prompts(app)] == ["ask"]
    with pytest.raises(TypeError, match="does not support item assignment"):
        prompts(app)["other"] = tool
    server = lowlevel(app)
    assert isinstance(server.icons[0], FORM.types.Icon) and lowlevel(FastMCP("x")).icons is None
    assert server.get_capabilities(None, {"x": {}}).experimental == {"x": {}}
