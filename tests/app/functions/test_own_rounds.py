"""Functions that return an InputRequiredResult: their `request_state` reaches them again, and no client can read it."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among

from mcp_generated import App, Context, RemoteJSONRPCError, Tool, forward
from mcp_generated import v2026_07_28 as stateless
from mcp_generated.v2026_07_28 import types as t
from mcp_products.versions.adapters import server_candidates

SCHEMA = {"type": "object", "properties": {"size": {"type": "string"}}}
REQUESTS: Any = {
    "size": {"method": "elicitation/create", "params": {"message": "Size?", "requestedSchema": SCHEMA}},
}
CAPABILITIES: dict[str, Any] = {"elicitation": {}}


def shop() -> tuple[App, list[str]]:
    """Return an app with a tool, a prompt and a resource that need two rounds of their own, and what is done once."""
    app, once = App("shop"), list[str]()

    async def order(ctx: Context) -> Any:
        number = int(ctx.request_state or 0) + 1
        await ctx.info(f"round {number}")
        await ctx.once("pay", lambda: once.append("paid"))
        if number < 3:
            return t.InputRequiredResult(input_requests=REQUESTS, request_state=str(number))
        return f"{ctx.request_state} {ctx.input_responses['size'].content['size']}"

    async def around(ctx: Context) -> Any:
        return await forward()

    app.tool(order)
    app.add_tool(Tool.from_tool("order", "copy"))
    app.add_tool(Tool.from_tool("order", "around", transform_fn=around))
    app.prompt(order)
    app.resource("shop://order")(order)
    inner = App("inner")
    inner.tool(order)
    app.mount(inner, "inner")
    return app, once


CALLS: dict[str, Any] = {
    "tool": lambda client, **retry: client.call_tool(name="order", **retry),
    "copy": lambda client, **retry: client.call_tool(name="copy", **retry),
    "around": lambda client, **retry: client.call_tool(name="around", **retry),
    "mounted": lambda client, **retry: client.call_tool(name="inner_order", **retry),
    "prompt": lambda client, **retry: client.get_prompt(name="order", **retry),
    "resource": lambda client, **retry: client.read_resource(uri="shop://order", **retry),
}
KINDS = pytest.mark.parametrize("kind", CALLS)


def text_of(result: Any) -> str:
    """Return the text of a result of any kind."""
    [item] = getattr(result, "content", None) or getattr(result, "messages", None) or result.contents
    return str(getattr(item, "content", item).text)


@KINDS
@among([rev for rev in ALL_REVISIONS if rev.id >= "2025-06-18"])
async def test_the_state_reaches_the_function_again(rev: Rev, kind: str) -> None:
    app, once = shop()

    class Shopper(rev.package.Client):  # type: ignore[name-defined, misc]
        async def on_elicit(self, ctx: Any, params: Any) -> Any:
            return rev.package.types.ElicitResult(action="accept", content={"size": "large"})

    async with Shopper.memory(*server_candidates(app.server, [rev.id])) as client:
        assert text_of(await CALLS[kind](client)) == "2 large"
    assert once == (["paid"] if rev.stateless else ["paid"] * 3)


@KINDS
async def test_the_client_cannot_read_change_or_reuse_the_state(kind: str) -> None:
    app, _ = shop()
    answers = {"size": t.ElicitResult(action="accept", content={"size": "large"})}
    async with stateless.Client.memory(app.server, capabilities=CAPABILITIES) as client:
        first = await CALLS[kind](client)
        assert isinstance(first, t.InputRequiredResult)
        state: Any = first.request_state
        assert len(state) > 40 and state != "1"
        second = await CALLS[kind](client, request_state=state, input_responses=answers)
        assert isinstance(second, t.InputRequiredResult)
        for wrong in ("2", state[:-8] + "AAAAAAA=", state + "x"):
            with pytest.raises(RemoteJSONRPCError, match="requestState is invalid"):
                await CALLS[kind](client, request_state=wrong, input_responses=answers)
        other = "prompt" if kind != "prompt" else "tool"
        with pytest.raises(RemoteJSONRPCError, match="another request"):
            await CALLS[other](client, request_state=state, input_responses=answers)


async def test_responses_with_the_state_of_another_request_are_refused_without_a_look_at_the_state() -> None:
    app = App("shop")

    @app.tool
    def order(ctx: Context, item: str) -> Any:
        if ctx.input_responses is None:
            return t.InputRequiredResult(input_requests=REQUESTS, request_state=item)
        return "ordered"

    answers: Any = {"size": t.ElicitResult(action="accept", content={"size": "large"})}
    async with stateless.Client.memory(app.server, capabilities=CAPABILITIES) as client:
        first: Any = await client.call_tool(name="order", arguments={"item": "tea"})
        with pytest.raises(RemoteJSONRPCError, match="another request"):
            await client.call_tool(
                name="order",
                arguments={"item": "house"},
                request_state=first.request_state,
                input_responses=answers,
            )
