"""What a server says may be kept is kept by the client: as long as it holds, for who may see it, until it changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, Tap, among, raw_server

from mcp_generated import App, v2026_07_28
from mcp_products.host.cache import ResponseCache
from mcp_runtime.errors import JSONRPCError, LocalError, RemoteJSONRPCError
from mcp_runtime.server.lists import CacheHint
from mcp_runtime.session.requests import RequestOptions

t = v2026_07_28.types
WATCHING = {"tools": {"listChanged": True}, "resources": {"listChanged": True, "subscribe": True}}
TOOL = t.Tool.model_validate({"name": "x", "inputSchema": {"type": "object"}})


class Counting(v2026_07_28.Server):
    """Counts what it is asked, and says the number."""

    requests = 0

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        self.requests += 1
        tool = TOOL.model_copy(update={"title": f"{self.requests}, {params.cursor}"})
        return t.ListToolsResult(tools=[tool], next_cursor="2" if params.cursor is None else None)

    async def list_resources(self, ctx: Any, params: Any) -> t.ListResourcesResult:
        self.requests += 1
        return t.ListResourcesResult(resources=[t.Resource(uri="test://a", name=str(self.requests))])

    async def read_resource(self, ctx: Any, params: Any) -> t.ReadResourceResult:
        self.requests += 1
        if params.uri == "test://none":
            raise JSONRPCError(-32602, "there is none")
        contents = [t.TextResourceContents(uri=params.uri, text=str(self.requests))]
        if params.uri == "test://never":
            return t.ReadResourceResult(contents=contents, ttl_ms=0, cache_scope="private")
        return t.ReadResourceResult(contents=contents)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def counting(ttl: float = 60, scope: Any = "private") -> Counting:
    hints = {name: CacheHint(ttl, scope) for name in ("list_tools", "list_resources", "read_resource", "discover")}
    return Counting(name="counting", version="1", capabilities=WATCHING, cache_hints=hints)


def client_of(server: Any, **settings: Any) -> v2026_07_28.Client:
    return v2026_07_28.Client.memory(server, **settings)


async def text(client: v2026_07_28.Client, uri: str = "test://a", options: RequestOptions | None = None) -> str:
    (content,) = (await client.read_resource(uri=uri, options=options)).contents
    assert isinstance(content, t.TextResourceContents)
    return content.text


async def test_an_answer_is_asked_for_once_as_long_as_it_holds() -> None:
    clock, server = Clock(), counting(ttl=60)
    async with client_of(server, cache=ResponseCache(clock=clock).for_user("counting", "ann")) as client:
        first = await client.list_tools()
        assert (first.ttl_ms, first.cache_scope, first.tools[0].title) == (60_000, "private", "1, None")
        clock.now = 59.999
        again = await client.list_tools()
        assert again == first and again is not first and server.requests == 1
        clock.now = 60.0
        assert (await client.list_tools()).tools[0].title == "2, None"


async def test_each_page_and_each_resource_is_an_answer_of_its_own() -> None:
    server = counting()
    async with client_of(server) as client:
        for _ in range(2):
            assert [tool.title async for tool in client.iter_tools()] == ["1, None", "2, 2"]
        assert [await text(client, f"test://{name}") for name in "abab"] == ["3", "4", "3", "4"]
        assert await text(client, options=RequestOptions(meta={"com.example/of": 1})) == "5"


async def test_who_wants_a_fresh_answer_gets_one_and_so_does_a_client_that_keeps_nothing() -> None:
    server = counting()
    async with client_of(server) as client:
        fresh = RequestOptions(bypass_cache=True)
        assert [await text(client), await text(client, options=fresh), await text(client)] == ["1", "2", "2"]
    async with client_of(server, cache=False) as client:
        assert [await text(client), await text(client)] == ["3", "4"]


async def test_without_a_hint_nothing_is_kept_and_what_a_handler_says_itself_goes_first() -> None:
    server = Counting(name="counting", version="1")
    async with client_of(server) as client:
        result = await client.list_tools()
        assert (result.ttl_ms, result.cache_scope) == (0, "private")
        assert (await client.list_tools()).tools[0].title == "2, None"
    server = counting(scope="public")
    async with client_of(server) as client:
        never = await client.read_resource(uri="test://never")
        assert (never.ttl_ms, never.cache_scope) == (0, "private")
        assert await text(client, "test://never") == "2"
        assert isinstance(client.server, t.DiscoverResult) and client.server.ttl_ms == 60_000


async def test_errors_are_not_kept() -> None:
    server = counting()
    async with client_of(server) as client:
        for _ in range(2):
            with pytest.raises(RemoteJSONRPCError, match="there is none"):
                await text(client, "test://none")
    assert server.requests == 2


async def test_only_what_is_public_is_shared_between_users() -> None:
    cache = ResponseCache()
    for scope, texts in (("private", ["1", "2", "1"]), ("public", ["1", "1", "1"])):
        server, texts_read = counting(scope=scope), list[str]()
        for user in ("ann", "bob", "ann"):
            async with client_of(server, cache=cache.for_user(scope, user)) as client:
                texts_read.append(await text(client))
        assert texts_read == texts
    async with client_of(counting(), cache=cache.for_user("another", "ann")) as client:
        assert await text(client) == "1"


async def test_two_clients_share_nothing_unless_they_are_told_to() -> None:
    server = counting(scope="public")
    for number in ("1", "2"):
        async with client_of(server) as client:
            assert await text(client) == number


async def test_a_change_that_is_told_drops_what_it_is_about_and_nothing_else() -> None:
    server = counting()
    async with (
        client_of(server) as client,
        client.listen(tool_list_changed=True, resource_updated=["test://a"]) as changes,
    ):

        async def numbers() -> list[str]:
            lists = [(await client.list_tools()).tools[0].title, (await client.list_resources()).resources[0].name]
            return [f"{listing}"[0] for listing in lists] + [
                await text(client, f"test://{name}") for name in ("a", "b")
            ]

        assert await numbers() == ["1", "2", "3", "4"]
        await server.notify_tool_list_changed()
        await anext(changes)
        assert await numbers() == ["5", "2", "3", "4"]
        await server.notify_resource_updated(uri="test://a")
        await anext(changes)
        assert await numbers() == ["5", "2", "6", "4"]


async def test_an_answer_that_was_under_way_when_it_changed_is_not_kept() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Counting):
        async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
            result = await super().list_tools(ctx, params)
            began.set()
            await go_on.wait()
            return result

    server = Slow(name="slow", version="1", capabilities=WATCHING, cache_hints={"list_tools": CacheHint(60)})
    async with client_of(server) as client, client.listen() as changes:
        listing = asyncio.create_task(client.list_tools())
        await began.wait()
        await server.notify_tool_list_changed()
        await anext(changes)
        go_on.set()
        assert (await listing).tools[0].title == "1, None"
        assert (await client.list_tools()).tools[0].title == "2, None"


async def test_pages_of_a_list_whose_cursor_is_refused_are_dropped() -> None:
    class Shrinking(Counting):
        async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
            if params.cursor == "9":
                raise JSONRPCError(-32602, "no such page")
            return await super().list_tools(ctx, params)

    async with client_of(Shrinking(name="s", version="1", cache_hints={"list_tools": CacheHint(60)})) as client:
        await client.list_tools()
        with pytest.raises(RemoteJSONRPCError, match="no such page"):
            await client.list_tools(cursor="9")
        assert (await client.list_tools()).tools[0].title == "2, None"


async def test_what_asks_something_first_is_not_kept_nor_what_comes_after_it() -> None:
    class Asking(Counting):
        async def read_resource(self, ctx: Any, params: Any) -> Any:
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            await ctx.elicit(t.ElicitRequestFormParams.model_validate(form))
            return await super().read_resource(ctx, params)

    class Answering(v2026_07_28.Client):
        async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
            return t.ElicitResult(action="accept", content={})

    server = Asking(name="asking", version="1", cache_hints={"read_resource": CacheHint(60)})
    tap = Tap(server)
    async with Answering(tap) as client:
        assert [await text(client), await text(client)] == ["1", "2"]
    assert tap.methods().count("resources/read") == 4


async def test_no_more_is_kept_than_there_is_room_for() -> None:
    server = counting()
    async with client_of(server, cache=ResponseCache(max_entries=2).for_user("s", "u")) as client:
        assert [await text(client, f"test://{name}") for name in "abaca"] == ["1", "2", "1", "3", "1"]
        assert await text(client, "test://b") == "4"
    one = len((await served(counting())).model_dump_json())
    for size, texts in ((one - 1, ["1", "2"]), (one, ["1", "1"])):
        async with client_of(counting(), cache=ResponseCache(max_bytes=size).for_user("s", "u")) as client:
            assert [await text(client), await text(client)] == texts


async def served(server: Counting) -> t.ReadResourceResult:
    async with client_of(server) as client:
        return await client.read_resource(uri="test://a")


@pytest.mark.parametrize("ttl, again", [(-5, True), (0, True), (None, True), (10**400, False), (5000, False)])
async def test_a_time_below_zero_means_not_to_keep_it_and_no_time_is_for_ever(ttl: int | None, again: bool) -> None:
    wire, connect = raw_server()
    clock = Clock()
    client = v2026_07_28.Client(
        connect, cache=ResponseCache(clock=clock).for_user("raw", "u"), connect_options=RequestOptions(timeout=None)
    )

    async def answer(**result: Any) -> None:
        request = await wire.receive()
        payload = {"resultType": "complete", "cacheScope": "public", **result}
        wire.send({"jsonrpc": "2.0", "id": request["id"], "result": payload})

    async def list_once() -> t.ListToolsResult:
        listing = asyncio.create_task(client.list_tools())
        await answer(tools=[], **({} if ttl is None else {"ttlMs": ttl}))
        return await listing

    opening = asyncio.create_task(client.__aenter__())
    await answer(supportedVersions=["2026-07-28"], capabilities={"tools": {}}, ttlMs=-1)
    await opening
    result = await list_once()
    assert result.ttl_ms == (ttl if ttl is not None and ttl > 0 else 0)
    if not again:
        await client.list_tools()
        clock.now = 24 * 3600.0
    await list_once()
    await client.close()


@among(HANDSHAKE)
async def test_older_clients_are_served_as_before_and_keep_nothing(rev: Rev) -> None:
    server = counting()
    kind = rev.package.Client
    async with kind.memory(server, revisions="all", cache=False) as client:
        await client.list_tools()
        await client.list_tools()
    assert server.requests == 2


async def test_an_app_has_hints_as_well_and_wrong_ones_are_refused() -> None:
    app = App("kept", cache_hints={"list_tools": CacheHint(1.5, "public")})

    @app.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with client_of(app.server) as client:
        result = await client.list_tools()
    assert (result.ttl_ms, result.cache_scope) == (1500, "public")
    with pytest.raises(LocalError, match="results of 'call_tool' cannot be cached"):
        App("kept", cache_hints={"call_tool": CacheHint(1)}).server
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(LocalError, match="ttl must be a number of seconds from 0"):
            CacheHint(wrong)
    with pytest.raises(LocalError, match="'private' or 'public'"):
        CacheHint(1, "secret")  # type: ignore[arg-type]
