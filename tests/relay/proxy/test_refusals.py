"""What a client refuses, or cannot do, while its request is handled: it gets its own error, through a proxy as well."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, server_of, since
from support.matrices import long_after

from mcp_generated import App, Context, Gateway
from mcp_runtime.errors import JSONRPCError, RemoteJSONRPCError

REFUSAL = (-32001, "not today", {"why": "tired"})
HANDLERS = {"elicit": "on_elicit", "sample": "on_create_message", "roots": "on_list_roots"}
CAPABILITIES = {"elicit": "elicitation", "sample": "sampling", "roots": "roots"}


def target(rev: Rev) -> Any:
    """A server of this revision whose tools catch nothing."""
    t = rev.t

    async def call_tool(ctx: Any, params: Any) -> Any:
        match params.name:
            case "elicit":
                fields = {"message": "who", "requestedSchema": {"type": "object", "properties": {}}}
                if (kind := getattr(t, "ElicitRequestFormParams", None)) is not None:
                    result = await ctx.elicit(kind.model_validate(fields))
                else:
                    result = await ctx.elicit(**t.ElicitRequestParams.model_validate(fields).__dict__)
                return rev.text(result.action)
            case "sample":
                message = t.SamplingMessage(role="user", content=t.TextContent(text="who"))
                await ctx.create_message(messages=[message], max_tokens=5)
            case _:
                await ctx.list_roots()
        return rev.text("done")

    def list_tools(ctx: Any, params: Any) -> Any:
        items = [t.Tool.model_validate({"name": name, "inputSchema": {"type": "object"}}) for name in HANDLERS]
        return t.ListToolsResult(tools=items, **({"ttl_ms": 0, "cache_scope": "public"} if rev.stateless else {}))

    return server_of(rev, call_tool=call_tool, list_tools=list_tools)


def functions() -> App:
    app = App("functions")

    @app.prompt
    async def prompt(ctx: Context) -> str:
        return str(await ctx.elicit("who", str))

    @app.resource("data://value")
    async def resource(ctx: Context) -> str:
        return str(await ctx.elicit("who", str))

    return app


def client(rev: Rev, server: Any, what: str, answer: Any = None) -> Any:
    """A client that answers so, refuses, or, for None, cannot do it."""

    async def handle(self: Any, ctx: Any, params: Any = None) -> Any:
        if answer == "refuse":
            raise JSONRPCError(*REFUSAL)
        return rev.t.ElicitResult(action=answer)

    members = {} if answer is None else {HANDLERS[what]: handle}
    return type("Answering", (rev.package.Client,), members).memory(server)


def has_forms(what: str, *revs: Rev) -> bool:
    return what != "elicit" or all(rev.id >= "2025-06-18" for rev in revs)


@pytest.mark.parametrize("what", HANDLERS)
@pytest.mark.parametrize("behind", [None, *ALL_REVISIONS], ids=str)
@among(ALL_REVISIONS)
async def test_a_client_gets_its_own_refusal(rev: Rev, behind: Rev | None, what: str) -> None:
    served = behind or rev
    if not has_forms(what, rev, served):
        assert not hasattr(min((rev, served), key=str).t, "ElicitResult")
        return
    server = target(served) if behind is None else App.proxy(target(served))
    async with client(rev, server, what, "refuse") as connected:
        with pytest.raises((RemoteJSONRPCError, JSONRPCError)) as caught:  # Without a session it is the client's own.
            await connected.call_tool(what)
    assert (caught.value.code, caught.value.message, caught.value.data) == REFUSAL


@pytest.mark.parametrize("what", HANDLERS)
@pytest.mark.parametrize("behind", [None, *ALL_REVISIONS], ids=str)
@among(ALL_REVISIONS)
async def test_what_a_client_cannot_do_is_named(rev: Rev, behind: Rev | None, what: str) -> None:
    served = behind or rev
    if not has_forms(what, served):
        assert not hasattr(served.t, "ElicitResult")
        return
    server = target(served) if behind is None else App.proxy(target(served))
    async with client(rev, server, what) as connected:
        with pytest.raises(RemoteJSONRPCError, match=f"the capability 'client.{CAPABILITIES[what]}'") as caught:
            await connected.call_tool(what)
    assert caught.value.code in (-32600, -32021), caught.value


@pytest.mark.parametrize("answer", ["decline", "cancel"])
@pytest.mark.parametrize("behind", [None, *since("2025-06-18")], ids=str)
@among(since("2025-06-18"))
async def test_a_form_that_is_declined_or_cancelled_is_an_answer(rev: Rev, behind: Rev | None, answer: str) -> None:
    server = target(rev) if behind is None else App.proxy(target(behind))
    async with client(rev, server, "elicit", answer) as connected:
        assert (await connected.call_tool("elicit")).content[0].text == answer


@pytest.mark.parametrize("through", ["direct", "proxy"])
@pytest.mark.parametrize("answer", ["refuse", None])
@among(since("2025-06-18"))
async def test_prompts_and_resources_of_an_app(rev: Rev, answer: str | None, through: str) -> None:
    app = functions()
    server = app if through == "direct" else App.proxy(app)
    async with client(rev, server, "elicit", answer) as connected:
        for request in (lambda: connected.get_prompt("prompt"), lambda: connected.read_resource("data://value")):
            with pytest.raises((RemoteJSONRPCError, JSONRPCError)) as caught:
                await request()
            if answer is None:
                assert "the capability 'client.elicitation'" in caught.value.message
            else:
                assert (caught.value.code, caught.value.message, caught.value.data) == REFUSAL


UPSTREAM = """
from mcp_generated import App, Context, Gateway
from mcp_generated.v2025_11_25 import types as t

app = App("upstream")


@app.tool
async def elicit(ctx: Context) -> str:
    return (await ctx.elicit("who", str)).action


@app.tool
async def sample(ctx: Context) -> str:
    return str(await ctx.sample("who", max_tokens=5))


@app.tool
async def roots(ctx: Context) -> str:
    return str(await ctx.list_roots())


if __name__ == "__main__":
    app.run()
"""


@pytest.mark.long
@pytest.mark.parametrize("answer", long_after(1, ["refuse", None]))
@pytest.mark.parametrize("what", HANDLERS)
@among(since("2025-06-18"))
async def test_through_a_gateway(rev: Rev, what: str, answer: str | None, tmp_path: Path) -> None:
    file = tmp_path / "upstream.py"
    file.write_text(UPSTREAM)
    gateway = Gateway({"upstreams": {"up": {"command": sys.executable, "args": [str(file)]}}})
    async with client(rev, gateway.app, what, answer) as connected:
        with pytest.raises((RemoteJSONRPCError, JSONRPCError)) as caught:
            await connected.call_tool(f"up_{what}")
    if answer is None:
        assert f"the capability 'client.{CAPABILITIES[what]}'" in caught.value.message
    else:
        assert (caught.value.code, caught.value.message, caught.value.data) == REFUSAL


@among(HANDSHAKE)
async def test_the_error_of_another_server_is_not_passed_on(rev: Rev) -> None:
    def refuse(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(-32001, "a secret of the other server")

    other = server_of(rev, call_tool=refuse)

    async def call_tool(ctx: Any, params: Any) -> Any:
        async with rev.package.Client.memory(other) as inner:
            return await inner.call_tool("any")

    async with rev.package.Client.memory(server_of(rev, call_tool=call_tool)) as connected:
        with pytest.raises(RemoteJSONRPCError, match="^internal error"):
            await connected.call_tool("any")
