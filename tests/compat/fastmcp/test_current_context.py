"""Functions that find the context of the request by themselves, and what they find."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from support.clients import connect
from support.http.in_process import asking

from mcp_generated import App, Context, LocalError
from mcp_generated.dependencies import (
    get_access_token,
    get_context,
    get_http_headers,
    get_http_request,
    get_server,
)
from mcp_generated.v2025_06_18 import Client as HandshakeClient
from mcp_generated.v2026_07_28 import Client as StatelessClient

app = App("current")


def deep() -> str:
    """Find the context without an argument, as a helper of a tool does."""
    return str(get_context().request_id)


@app.tool()
def plain(ctx: Context) -> bool:
    return deep() == str(ctx.request_id)


@app.tool()
async def coroutine(ctx: Context) -> bool:
    await asyncio.sleep(0)
    return deep() == str(ctx.request_id) and get_context() is ctx and get_server() is app


@app.resource("current://id")
def resource() -> str:
    return deep()


@app.prompt()
def prompt() -> str:
    return deep()


@app.tool()
def web() -> dict[str, Any]:
    request = get_http_request()
    return {"path": request.path, "some": dict(get_http_headers()), "all": dict(get_http_headers(include_all=True))}


@app.tool()
def chosen() -> dict[str, str]:
    return dict(get_http_headers(include={"Authorization"}))


@app.tool()
def without_web() -> dict[str, str]:
    return dict(get_http_headers())


@app.tool()
async def nested(ctx: Context) -> bool:
    await ctx.read_resource("current://id")
    return get_context() is ctx


@pytest.mark.parametrize("name", ["plain", "coroutine", "nested"])
async def test_a_function_finds_the_context_of_its_tool(name: str) -> None:
    result = await app.call_tool(name)
    assert result.structured_content == {"result": True}


async def test_resources_and_prompts_have_a_context() -> None:
    [content] = (await app.read_resource("current://id")).contents
    assert content.text  # type: ignore[union-attr]
    [message] = (await app.get_prompt("prompt")).messages
    assert message.content.text  # type: ignore[union-attr]


async def test_calls_at_the_same_time_have_contexts_of_their_own() -> None:
    async with connect(app) as client:
        results = await asyncio.gather(*(client.call_tool("coroutine") for _ in range(20)))
    assert [result.structured_content for result in results] == [{"result": True}] * 20


async def test_middleware_finds_the_context() -> None:
    inner = App("inner")
    names: list[str] = []

    @inner.middleware
    async def note(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        assert get_context() is ctx
        names.append(name)
        return await call_next(ctx, params)

    @inner.tool
    def tool() -> str:
        return "done"

    outer = App("outer")
    outer.mount(inner, "inner")
    assert (await outer.call_tool("inner_tool")).content[0].text == "done"  # type: ignore[union-attr]
    assert names == ["call_tool"]


@pytest.mark.parametrize("kind", [HandshakeClient, StatelessClient])
async def test_headers_that_belong_to_the_connection_are_left_out(kind: Any) -> None:
    headers = {"X-Tenant": "a", "Authorization": "Bearer secret", "Cookie": "c=1"}
    web_app = app.asgi()
    from mcp_generated.http import HTTPOptions

    options = HTTPOptions(client=asking(web_app), headers=headers)
    async with kind.http("http://localhost/mcp", http=options) as client:
        seen = (await client.call_tool("web")).structured_content
        assert seen is not None
        assert seen["path"] == "/mcp"
        assert seen["some"]["x-tenant"] == "a"
        assert seen["some"].keys().isdisjoint({"authorization", "cookie", "host", "content-type", "content-length"})
        assert seen["all"]["authorization"] == "Bearer secret"
        some = (await client.call_tool("chosen")).structured_content
        assert some is not None
        assert some["authorization"] == "Bearer secret"
        assert "cookie" not in some
    await web_app.close()


async def test_outside_of_http_there_are_no_headers_and_no_token() -> None:
    assert (await app.call_tool("without_web")).structured_content == {}
    assert (await app.call_tool("web")).is_error
    assert get_access_token() is None
    assert get_http_headers() == {}


def test_outside_of_a_request_the_message_names_the_remedy() -> None:
    with pytest.raises(LocalError, match="import it at the top of the module"):
        get_context()
    with pytest.raises(LocalError, match="get_http_headers"):
        get_http_request()
    with pytest.raises(LocalError, match=r"write \['x'\]"):
        get_http_headers(include="x")


@pytest.mark.long
async def test_programs_that_do_not_import_it_do_not_load_it() -> None:
    program = """
import asyncio, sys
from mcp_generated import App
app = App("app")
@app.tool
def tool() -> str:
    return "done"
asyncio.run(app.call_tool("tool"))
print([name for name in sys.modules if name.endswith("dependencies.current")])
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert (process.returncode, output.decode().strip()) == (0, "[]")
