"""A proxy in front of a target: every revision of the client with every revision of the target, in process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import REVISIONS, App, Context, JSONRPCError, RemoteJSONRPCError
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

FORMS = [id for id in REVISIONS if id >= "2025-06-18"]  # The revisions with elicitation.
MISSING_CAPABILITY = -32021
URLS = [id for id in REVISIONS if id >= "2025-11-25"]  # Those with elicitation at a URL.


def target_app() -> App:
    app = App("target")
    app.cancelled = []  # type: ignore[attr-defined]

    @app.tool
    async def work(ctx: Context) -> t.CallToolResult:
        await ctx.info("half", part=1)
        await ctx.debug("too low")
        await ctx.report_progress(1, 2)
        await ctx.report_progress(2, 2)
        fields = {"content": [{"type": "text", "text": "done", "unknown": 1}], "_meta": {"example.com/a": 1}}
        return t.CallToolResult.model_validate({**fields, "unknown": {"b": 2}, "resultType": "complete"})

    @app.tool
    async def form(ctx: Context) -> str:
        first = await ctx.elicit("First?", str)
        second = await ctx.elicit("First?", str)
        return f"{first.action} {getattr(first, 'data', '')} {second.action} {getattr(second, 'data', '')}"

    @app.tool
    async def visit(ctx: Context) -> str:
        return (await ctx.elicit_url("Go there", "https://example.com/login")).action

    @app.tool
    async def think(ctx: Context) -> str:
        return (await ctx.sample("What?")).text

    @app.tool
    async def folders(ctx: Context) -> str:
        return " ".join(root.uri for root in (await ctx.list_roots()).roots)  # type: ignore[deprecated]

    add_changing_tools(app)

    @app.resource("note://a")
    def note() -> str:
        return "note a"

    @app.resource("note://days/{day}")
    def day(day: str) -> str:
        return f"day {day}"

    @app.prompt
    def greet(person: str) -> str:
        return f"Greet {person}"

    @app.completion
    def complete(ref: Any, argument: Any, context: Any) -> list[str]:
        return [f"{argument.value}nn"]

    return app


def add_changing_tools(app: App) -> None:
    """Add the tools that fail, that wait to be cancelled, and that change the app."""

    @app.tool
    def fail() -> str:
        raise JSONRPCError(-31999, "no luck", {"why": "rain"})

    @app.tool
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            app.cancelled.append(True)  # type: ignore[attr-defined]
            raise
        return "never"

    @app.tool
    async def grow(ctx: Context) -> str:
        app.add_tool(lambda: "new", "added")
        await ctx.notify_resource_updated("note://a")
        return "grown"


class Front(Client):
    """A client that answers all requests, and remembers what it received."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.received: list[str] = []

    async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
        if getattr(params, "url", None):
            self.received.append(params.url)
            return t.ElicitResult(action="accept")
        self.received.append(params.message)
        return t.ElicitResult(action="accept", content={"value": f"answer {len(self.received)}"})

    async def on_create_message(self, ctx: Any, params: Any) -> t.CreateMessageResult:
        return t.CreateMessageResult(model="m", role="assistant", content=t.TextContent(text="an idea"))

    async def on_list_roots(self, ctx: Any, params: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri="file:///work")])

    async def on_logging_message(self, ctx: Any, params: Any) -> None:
        self.received.append(f"log {params.level} {params.data}")


def text_of(result: Any) -> str:
    return str(result.content[0].text)


async def outcome(client: Front, tool: str) -> str:
    """The text of a tool, or that it cannot elicit: an error result, or the error of its revision for that."""
    try:
        result = await client.call_tool(tool)
    except RemoteJSONRPCError as error:
        assert error.code == MISSING_CAPABILITY and "elicitation" in error.message
        return "no elicitation"
    if result.is_error:
        assert "licit" in text_of(result) or text_of(result) == f"the tool {tool!r} failed"
        return "no elicitation"
    return text_of(result)


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0)


@pytest.fixture(params=list(REVISIONS))
def target_revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def front_of(proxy: App, revision: str, **settings: Any) -> Front:
    capabilities = {"elicitation": {"form": {}, "url": {}} if revision in URLS else {}}
    return connect(proxy, client=Front, revisions=[revision], capabilities=capabilities, **settings)


async def test_lists_reads_prompts_and_completions_are_those_of_the_target(revision: str, target_revision: str) -> None:
    target = target_app()
    async with front_of(App.proxy(target, revisions=[target_revision]), revision) as client:
        names = [tool.name async for tool in client.iter_tools()]
        assert names == [tool.name for tool in await target.list_tools()]
        assert [item.uri async for item in client.iter_resources()] == ["note://a"]
        assert [item.uri_template async for item in client.iter_resource_templates()] == ["note://days/{day}"]
        assert [item.name async for item in client.iter_prompts()] == ["greet"]
        assert (await client.read_resource("note://days/x")).contents[0].text == "day x"
        assert (await client.get_prompt("greet", {"person": "Ann"})).messages[0].content.text == "Greet Ann"
        suggestion = await client.complete(
            t.PromptReference(name="greet"), t.CompletionArgument(name="person", value="A")
        )
        assert suggestion.completion.values == ["Ann"]


async def test_results_keep_unknown_fields_and_progress_and_logs_arrive(revision: str, target_revision: str) -> None:
    async with front_of(App.proxy(target_app(), revisions=[target_revision]), revision) as client:
        progress: list[float] = []
        meta = {"io.modelcontextprotocol/logLevel": "info"} if revision == list(REVISIONS)[-1] else {}
        result = await client.call_tool("work", on_progress=lambda step: progress.append(step.progress), meta=meta)
        fields = result.model_dump()
        assert fields["unknown"] == {"b": 2} and fields["content"][0]["unknown"] == 1
        assert fields["_meta"]["example.com/a"] == 1
        assert progress == [1, 2]
        await until(lambda: client.received)
        assert client.received[0].startswith("log info") and "half" in client.received[0]


async def test_requests_of_the_target_go_to_the_client(revision: str, target_revision: str) -> None:
    async with front_of(App.proxy(target_app(), revisions=[target_revision]), revision) as client:
        assert text_of(await client.call_tool("think")) == "an idea"
        assert text_of(await client.call_tool("folders")) == "file:///work"
        can_show_forms = revision in FORMS and target_revision in FORMS
        assert await outcome(client, "form") == (
            "accept answer 1 accept answer 2" if can_show_forms else "no elicitation"
        )
        can_open_urls = revision in URLS and target_revision in URLS
        assert await outcome(client, "visit") == ("accept" if can_open_urls else "no elicitation")
        assert ("https://example.com/login" in client.received) == can_open_urls


async def test_errors_have_the_code_and_data_of_the_target(revision: str, target_revision: str) -> None:
    async with front_of(App.proxy(target_app(), revisions=[target_revision]), revision) as client:
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.call_tool("fail")
        assert (caught.value.code, caught.value.message, caught.value.data) == (-31999, "no luck", {"why": "rain"})
        with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'nothing'"):
            await client.call_tool("nothing")


async def test_a_cancelled_call_is_cancelled_at_the_target(revision: str, target_revision: str) -> None:
    target = target_app()
    async with front_of(App.proxy(target, revisions=[target_revision]), revision) as client:
        started = asyncio.Event()
        call = asyncio.create_task(client.call_tool("wait", on_progress=lambda step: started.set()))
        await started.wait()
        call.cancel()
        await until(lambda: target.cancelled)  # type: ignore[attr-defined]


async def test_changes_of_the_target_reach_subscribed_clients(revision: str, target_revision: str) -> None:
    target = target_app()
    async with front_of(App.proxy(target, revisions=[target_revision]), revision) as client:
        await client.list_tools()
        async with client.listen(tool_list_changed=True, resource_updated=["note://a"]) as changes:
            await client.call_tool("grow")
            seen = {(await anext(changes)).method.split("/")[1] for _ in range(2)}
        assert seen == {"tools", "resources"}
        assert "added" in [tool.name async for tool in client.iter_tools()]
