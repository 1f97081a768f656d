"""One file of handlers, examples/everything/app.py, serves clients of each revision, over stdio and HTTP, with every
feature; what an older revision cannot say comes as the nearest that it can."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, INVALID_PARAMS, Rev
from support.everything import APP, TOOLS, origin

from mcp_runtime.errors import MCPError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

NOT_FOUND: Final = -32002  # Before 2026-07-28.
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


@dataclass
class Talk:
    """A client of one revision in a conversation, and what it was told and asked."""

    rev: Rev
    client: Any
    logged: list[Any] = field(default_factory=list[Any])
    requests: list[Any] = field(default_factory=list[Any])

    def has(self, since: str) -> bool:
        return self.rev.id >= since

    async def call(self, name: str, options: RequestOptions | None = None, /, **arguments: Any) -> Any:
        return await self.client.call_tool(name=name, arguments=arguments, options=options)

    async def text(self, name: str, /, **arguments: Any) -> str:
        (content,) = (await self.call(name, **arguments)).content
        return str(content.text)


@asynccontextmanager
async def talking(transport: str, rev: Rev) -> AsyncGenerator[Talk]:
    talk = Talk(rev, None)
    t: Any = rev.t

    def on_logging_message(ctx: Any, params: Any) -> None:
        talk.logged.append((params.level, params.data))

    async def on_create_message(ctx: Any, params: Any) -> Any:
        talk.requests.append(params)
        text = params.messages[0].content.text.upper()
        return t.CreateMessageResult(
            role="assistant", content=t.TextContent(text=text), model="m", stop_reason="endTurn"
        )

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return t.ListRootsResult(roots=[t.Root(uri="file:///work", name="work")])

    async def on_elicit(ctx: Any, params: Any) -> Any:
        talk.requests.append(params)
        return t.ElicitResult(action="accept", content={"name": "Ada", "size": "s"})

    handlers: dict[str, Any] = {
        handler.__name__: handler for handler in (on_logging_message, on_create_message, on_list_roots)
    }
    if talk.has("2025-06-18"):
        handlers["on_elicit"] = on_elicit
    kind: Any = type(
        "Asking", (rev.package.Client,), {name: staticmethod(handler) for name, handler in handlers.items()}
    )
    connection = (
        kind.stdio(sys.executable, APP, "stdio")
        if transport == "stdio"
        else kind.http(origin() + ("/mcp" if talk.has("2025-03-26") else "/sse"))
    )
    async with asyncio.timeout(60), connection as talk.client:
        yield talk


# ---- what every client can do ----------------------------------------------------------------------------------------


async def lists_come_in_pages(talk: Talk) -> None:
    first = await talk.client.list_tools()
    assert len(first.tools) == 5 and first.next_cursor
    tools = {tool.name: tool async for tool in talk.client.iter_tools()}
    assert [name for name in tools if name != "extra"] == TOOLS
    assert tools["statistics"].input_schema.required == ["numbers"]
    if talk.has("2025-03-26"):
        assert tools["echo"].annotations.read_only_hint is True
    assert (getattr(tools["statistics"], "output_schema", None) is not None) is talk.has("2025-06-18")
    assert [prompt.name async for prompt in talk.client.iter_prompts()] == ["describe", "with_everything"]
    with pytest.raises(RemoteJSONRPCError) as refused:
        await talk.client.list_tools(cursor="nonsense")
    assert refused.value.code == INVALID_PARAMS


async def content_of_all_kinds_arrives(talk: Talk) -> None:
    assert await talk.text("echo", text="héllo\n\u2028") == "héllo\n\u2028"
    (image,) = (await talk.call("image")).content
    assert (image.type, image.mime_type) == ("image", "image/png")
    (audio,) = (await talk.call("audio")).content
    if talk.has("2025-03-26"):
        assert (audio.type, audio.mime_type) == ("audio", "audio/wav")
    else:
        assert (audio.type, audio.resource.mime_type) == ("resource", "audio/wav")
    text, image, embedded, link = (await talk.call("mixed")).content
    assert (text.text, image.type, embedded.resource.text) == ("Some of everything:", "image", "héllo")
    assert (link.type, link.uri if talk.has("2025-06-18") else link.text) == (
        ("resource_link", "demo://image") if talk.has("2025-06-18") else ("text", "image: demo://image")
    )


async def structured_results_are_text_in_older_revisions(talk: Talk) -> None:
    result = await talk.call("statistics", numbers=[1, 2.5])
    assert json.loads(result.content[0].text) == {"count": 2, "sum": 3.5, "maximum": 2.5}
    expected = {"count": 2, "sum": 3.5, "maximum": 2.5} if talk.has("2025-06-18") else None
    assert getattr(result, "structured_content", None) == expected


async def a_failing_tool_gives_a_result_and_an_unknown_one_an_error(talk: Talk) -> None:
    failed = await talk.call("fail")
    assert failed.is_error is True and failed.content[0].text == "This tool always fails."
    wrong = await talk.call("echo", text=5)
    assert wrong.is_error is True and "text" in wrong.content[0].text
    with pytest.raises(RemoteJSONRPCError) as refused:
        await talk.call("nonsense")
    assert refused.value.code == INVALID_PARAMS


async def progress_comes_with_the_call(talk: Talk) -> None:
    reported: list[Any] = []
    options = RequestOptions(
        on_progress=lambda progress: reported.append((progress.progress, progress.total, progress.message))
    )
    result = await talk.call("long_running", options, seconds=0.0, steps=2)
    assert result.content[0].text == "2 steps in 0 s"
    words = ["step 1", "step 2", "done"] if talk.has("2025-03-26") else [None] * 3
    assert reported == [(number, 2, word) for number, word in enumerate(words)]


async def log_messages_are_filtered_by_level(talk: Talk) -> None:
    options = None
    if talk.rev.stateless:
        options = RequestOptions(meta={LOG_LEVEL: "warning"})
    else:
        await talk.client.set_level(level="warning")
    await talk.call("log_something", options, level="info", text="hidden")
    await talk.call("log_something", options, level="error", text="shown")
    while not talk.logged:
        await asyncio.sleep(0)
    assert talk.logged == [("error", {"text": "shown"})]


async def resources_are_read(talk: Talk) -> None:
    uris = [resource.uri async for resource in talk.client.iter_resources()]
    assert uris[:2] == ["demo://text", "demo://image"]
    (template,) = [template async for template in talk.client.iter_resource_templates()]
    assert template.uri_template == "demo://number/{n}"
    texts = [(await talk.client.read_resource(uri=uri)).contents[0] for uri in ("demo://text", "demo://number/7")]
    assert [content.text for content in texts] == ["héllo", "This is number 7."]
    assert (await talk.client.read_resource(uri="demo://image")).contents[0].blob.startswith("iVBOR")
    for nothing in ("demo://nothing", "demo://number/1000", "demo://number/../text"):
        with pytest.raises(RemoteJSONRPCError) as refused:
            await talk.client.read_resource(uri=nothing)
        assert refused.value.code == (INVALID_PARAMS if talk.rev.stateless else NOT_FOUND)


async def changes_arrive(talk: Talk) -> None:
    note = f"note{id(talk) % 26**4:x}".translate(str.maketrans("0123456789", "ghijklmnop"))
    t: Any = talk.rev.t
    async with talk.client.listen(resource_list_changed=True, resource_updated=[f"note://{note}"]) as stream:
        assert await talk.text("write_note", name=note, text="one") == f"note://{note}"
        received = {type(await anext(stream)) for _ in range(2)}
        assert received == {t.ResourceListChangedNotification, t.ResourceUpdatedNotification}
        await talk.text("write_note", name=note, text="two")
        assert type(await anext(stream)) is t.ResourceUpdatedNotification
    assert (await talk.client.read_resource(uri=f"note://{note}")).contents[0].text == "two"


async def tools_come_and_go(talk: Talk) -> None:
    async with talk.client.listen(tool_list_changed=True) as stream:
        assert await talk.text("toggle_extra") == "here"
        assert type(await anext(stream)) is talk.rev.t.ToolListChangedNotification
        assert await talk.text("extra") == "I am only here for a while."
        assert await talk.text("toggle_extra") == "gone"


async def requests_reach_the_client(talk: Talk) -> None:
    assert await talk.text("sample", prompt="hello") == "m (endTurn): HELLO"
    assert await talk.text("list_roots") == "work: file:///work"
    assert len(talk.requests) == 1 and talk.requests[0].max_tokens == 100


async def elicitation_reaches_the_user(talk: Talk) -> None:
    if talk.has("2025-06-18"):
        assert await talk.text("elicit_name") == "accept: name=Ada, size=s"
        assert talk.requests[0].message == "Who are you?"
    else:
        try:
            result = await talk.call("elicit_name")
        except MCPError:
            return
        assert result.is_error is True


async def prompts_are_filled_in(talk: Talk) -> None:
    (message,) = (await talk.client.get_prompt(name="describe", arguments={"city": "Pau"})).messages
    assert message.content.text == "Describe Pau in a short text."
    image, resource, answer = (await talk.client.get_prompt(name="with_everything")).messages
    assert (image.content.type, resource.content.resource.text, answer.role) == ("image", "héllo", "assistant")
    with pytest.raises(RemoteJSONRPCError) as refused:
        await talk.client.get_prompt(name="describe")
    assert refused.value.code == INVALID_PARAMS


async def arguments_are_completed(talk: Talk) -> None:
    t: Any = talk.rev.t
    about = t.CompletionArgument(name="city", value="pa")
    completion = (await talk.client.complete(ref=t.PromptReference(name="describe"), argument=about)).completion
    assert completion.values == ["Padua", "Paris", "Pau"]
    kind = getattr(t, "ResourceTemplateReference", None) or t.ResourceReference
    number = t.CompletionArgument(name="n", value="")
    many = (await talk.client.complete(ref=kind(uri="demo://number/{n}"), argument=number)).completion
    assert (len(many.values), many.total, many.has_more) == (100, 1000, True)


async def a_call_is_cancelled(talk: Talk) -> None:
    began: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_progress(_: Any) -> None:
        if not began.done():
            began.set_result(None)

    call = asyncio.create_task(
        talk.call("long_running", RequestOptions(on_progress=on_progress), seconds=50.0, steps=1)
    )
    await began
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await talk.text("echo", text="still here") == "still here"


FEATURES: Final[tuple[Callable[[Talk], Awaitable[None]], ...]] = (
    lists_come_in_pages,
    content_of_all_kinds_arrives,
    structured_results_are_text_in_older_revisions,
    a_failing_tool_gives_a_result_and_an_unknown_one_an_error,
    progress_comes_with_the_call,
    log_messages_are_filtered_by_level,
    resources_are_read,
    changes_arrive,
    tools_come_and_go,
    requests_reach_the_client,
    elicitation_reaches_the_user,
    prompts_are_filled_in,
    arguments_are_completed,
    a_call_is_cancelled,
)


# A process for each feature takes its time: the revisions between the oldest and the newest are left to the long tests.
CELLS = [
    pytest.param(
        transport,
        rev,
        id=f"{transport}-{rev}",
        marks=[pytest.mark.long] if transport == "stdio" and rev in ALL_REVISIONS[1:-1] else [],
    )
    for transport in ("http", "stdio")  # One server over HTTP serves most cases.
    for rev in ALL_REVISIONS
]


@pytest.mark.long
@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.__name__)
@pytest.mark.parametrize(("transport", "rev"), CELLS)
async def test_a_feature(transport: str, rev: Rev, feature: Callable[[Talk], Awaitable[None]]) -> None:
    async with talking(transport, rev) as talk:
        assert talk.client.revision.id == rev.id
        await feature(talk)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_that_may_choose_speaks_the_newest(transport: str) -> None:
    target = [sys.executable, APP, "stdio"] if transport == "stdio" else origin() + "/mcp"
    async with asyncio.timeout(60), connect(target) as client:
        assert client.revision.id == ALL_REVISIONS[-1].id
        assert [tool.name async for tool in client.iter_tools()][:2] == TOOLS[:2]
