"""Lists that do not end, in each place that follows cursors by itself: it says so, and goes on or fails."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.clients import connect
from support.endpoints import HANDSHAKE, STATELESS, among, server_of
from support.http.in_process import asking
from support.http.raw_server import Got, Raw, Write, discover, reply, result, serving, text, text_result
from support.matrices import long_after
from support.project import SERVERS

from mcp_codegen.cli.main import main
from mcp_generated import App, Context, RemoteError, v2026_07_28
from mcp_generated.transforms import Transform

Next = Callable[[str | None], str]
WAYWARD = shlex.join([sys.executable, str(SERVERS / "wayward.py")])


def circle(cursor: str | None) -> str:
    return "b" if cursor == "a" else "a"


def endless_cursors() -> Next:
    numbers = itertools.count()
    return lambda cursor: f"c{next(numbers)}"


NEXT: dict[str, tuple[Callable[[], Next], str]] = {
    "circle": (lambda: circle, "repeats the cursor 'a'"),
    "endless": (endless_cursors, "more than {} pages"),
}
wrong = pytest.mark.parametrize("wrong", NEXT)


def expected(wrong: str, pages: str) -> str:
    return NEXT[wrong][1].format(pages)


# ---- the transports, which read the headers that tools declare ------------------------------------------------------


@wrong
async def test_a_server_serves_calls_though_its_own_list_does_not_end(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    rev, following = STATELESS[-1], NEXT[wrong][0]()
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    async def list_tools(ctx: Any, params: Any) -> Any:
        tool = rev.t.Tool.model_validate({"name": "go", "inputSchema": schema})
        return rev.t.ListToolsResult(tools=[tool], next_cursor=following(params.cursor))

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.t.CallToolResult(content=[rev.t.TextContent(text=str(params.arguments))])

    asgi = server_of(rev, list_tools=list_tools, call_tool=call_tool).asgi()
    message = rev.request(1, "tools/call", {"name": "go", "arguments": {"region": "north"}})
    head = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": rev.id,
        "mcp-method": "tools/call",
        "mcp-name": "go",
    }
    async with asking(asgi) as web:
        right = await web.post("/mcp", json=message, headers={**head, "mcp-param-region": "north"})
        other = await web.post("/mcp", json=message, headers={**head, "mcp-param-region": "south"})
    assert right.status_code == 200 and "north" in right.text
    assert other.status_code == 400, "what was read is checked still"
    assert any("further pages" in line and expected(wrong, "100") in line for line in caplog.messages)
    await asgi.close()


@wrong
async def test_a_client_that_reads_the_headers_of_tools_again_goes_on_with_the_call(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    following, calls = NEXT[wrong][0](), itertools.count(1)
    code = -32020

    async def list_tools(got: Got, write: Write) -> None:
        page = {"tools": [], "nextCursor": following(got.body["params"].get("cursor"))}
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await write(reply(result(got, {**page, **more})))

    async def call(got: Got, write: Write) -> None:
        if next(calls) > 1:
            return await write(reply(result(got, {**text_result("at last"), "resultType": "complete"})))
        error = {"code": code, "message": "the header Mcp-Param-Region is missing"}
        await write(reply(json.dumps({"jsonrpc": "2.0", "id": got.body["id"], "error": error}).encode(), 400))

    raw = Raw({"server/discover": discover, "tools/list": list_tools, "tools/call": call})
    async with serving(raw), v2026_07_28.Client.http(raw.url) as client:
        assert text(await client.call_tool(name="go")) == "at last"
    assert len(raw.requests_of("tools/list")) <= 101
    assert any("not read further" in line and expected(wrong, "100") in line for line in caplog.messages)


# ---- apps -----------------------------------------------------------------------------------------------------------


def app_of(following: Next) -> App:
    """An app that has a middleware by which its list of tools does not end."""
    app = App("paged")

    @app.tool
    async def count(ctx: Context) -> int:
        """Return the number of the app's tools."""
        return len(await ctx.list_tools())

    @app.middleware
    async def paging(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        if name != "list_tools":
            return await call_next(ctx, params)
        page = await call_next(ctx, params.model_copy(update={"cursor": None}))
        return page.model_copy(update={"next_cursor": following(params.cursor)})

    return app


LISTS = {
    "list_tools": "ListToolsResult",
    "list_prompts": "ListPromptsResult",
    "list_resources": "ListResourcesResult",
    "list_resource_templates": "ListResourceTemplatesResult",
}


@wrong
@pytest.mark.parametrize("name", LISTS)
@among([HANDSHAKE[-1], STATELESS[-1]])
async def test_a_transform_refuses_a_list_that_does_not_end(rev: Any, name: str, wrong: str) -> None:
    following, items = NEXT[wrong][0](), name.removeprefix("list_")

    async def call_next(ctx: Any, params: Any) -> Any:
        return getattr(rev.t, LISTS[name])(**{items: [], "next_cursor": following(params.cursor)})

    params = rev.t.PaginatedRequestParams.model_construct(cursor=None)
    with pytest.raises(RemoteError, match=expected(wrong, "1,000")):
        await Transform().adapter(App("changed"))(name, None, params, call_next)


@wrong
async def test_a_function_that_lists_what_its_app_has_gets_an_error(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(app_of(NEXT[wrong][0]())) as client:
        called: Any = await client.call_tool("count", {})
    assert called.is_error and expected(wrong, "10,000") in caplog.text


# ---- the command line -----------------------------------------------------------------------------------------------


COMMANDS = [("inspect",), ("lock", "--output", "{}", "--from"), ("tools", "--output", "{}", "--from")]


@pytest.mark.long
@pytest.mark.parametrize("words", long_after(1, [(words,) for words in COMMANDS]), ids=lambda words: words[0])
@wrong
def test_a_command_that_lists_a_server_names_what_does_not_end(
    words: tuple[str, ...], wrong: str, tmp_path: Path
) -> None:
    file = tmp_path / "written"
    done = CliRunner().invoke(main, [*(word.format(file) for word in words), f"{WAYWARD} {wrong} tools/list"])
    assert done.exit_code != 0 and not file.exists()
    assert "'tools/list': the " in done.output and expected(wrong, "1,000") in " ".join(done.output.split())
