"""Half of a surrogate pair in a text of a user: errors have the place, the reason, and what to write."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among, client_of, server_of, since

from mcp_generated import App, ClientLogHandler, Context, LocalError, UserMessage
from mcp_runtime.errors import JSONRPCError, RemoteJSONRPCError, ToolError, UnwritableValueError

BAD = "a\ud800b"
REASON = "the character 1 is U\\+D800, half of a surrogate pair"
REMEDY = r'write text.encode\(errors="replace"\)'


def answering(rev: Rev, app: App, **handlers: Any) -> Any:
    """A client of a revision, of an app in memory, with these handlers."""
    members = {name: staticmethod(function) for name, function in handlers.items()}
    return type("Answering", (rev.package.Client,), members).memory(app)


class Item(BaseModel):
    text: str


# What a tool returns, and the place that its error names.
RESULTS: dict[str, tuple[Any, Any, str]] = {
    "text": (str, BAD, ""),
    "untyped": (Any, BAD, ""),
    "subclass": (Any, type("Own", (str,), {})(BAD), ""),
    "list": (list[str], ["a", BAD], ""),
    "dict": (dict[str, str], {"a": BAD}, "a: "),
    "key": (dict[str, int], {BAD: 1}, ""),
    "model": (Item, Item(text=BAD), "text: "),
    "nested": (dict[str, Any], {"a": [{"b": BAD}]}, r"a\[0\].b: "),
    "untyped dict": (Any, {"a": [BAD]}, r"a\[0\]: "),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", RESULTS)
async def test_a_result_of_a_tool(name: str, is_async: bool) -> None:
    hint, value, place = RESULTS[name]
    app = App("half")

    def function() -> Any:
        return value

    async def function_async() -> Any:
        return value

    function.__annotations__ = function_async.__annotations__ = {"return": hint}
    app.add_tool(function_async if is_async else function, "give")
    async with connect(app) as client:
        result = await client.call_tool("give")
    text = result.content[0].text  # pyright: ignore
    assert result.is_error and "the tool 'give' returned a value that cannot be sent: " in text
    assert re.search(f"{place}{REASON}.*{REMEDY}", text), text


@among(ALL_REVISIONS)
async def test_a_prompt_and_a_resource(rev: Rev) -> None:
    app = App("half")
    app.add_prompt(lambda: BAD, "text")
    app.add_prompt(lambda: [UserMessage("a"), UserMessage({"a": BAD})], "message")
    app.add_resource("data://text", lambda: BAD)
    app.add_resource("data://dict", lambda: {"a": BAD})
    async with rev.package.Client.memory(app) as client:
        for name in ("text", "message"):
            with pytest.raises(RemoteJSONRPCError, match=f"the prompt '{name}' returned .*{REASON}.*{REMEDY}"):
                await client.get_prompt(name)
            with pytest.raises(RemoteJSONRPCError, match=f"internal error.*'data://.*{REASON}.*{REMEDY}"):
                await client.read_resource(f"data://{'dict' if name == 'message' else name}")


@among(ALL_REVISIONS)
async def test_a_result_of_a_class(rev: Rev) -> None:
    server = server_of(rev, call_tool=lambda ctx, params: rev.text(BAD))
    async with client_of(rev, server) as client:
        with pytest.raises(
            RemoteJSONRPCError, match=rf"internal error: .*content\[0\].text: {REASON}.*{REMEDY}"
        ) as caught:
            await client.call_tool("any")
    assert caught.value.code == -32603


@among(ALL_REVISIONS)
async def test_the_text_of_an_error_is_escaped(rev: Rev) -> None:
    app = App("half", tool_errors=(KeyError,))

    @app.tool
    def tool_error() -> str:
        raise ToolError(BAD)

    @app.tool
    def shown_error() -> str:
        raise KeyError(BAD)

    @app.prompt
    def refuse() -> str:
        raise JSONRPCError(-32000, BAD, {"a": BAD})

    async with rev.package.Client.memory(app) as client:
        assert (await client.call_tool("tool_error")).content[0].text == r"a\ud800b"
        assert r"a\ud800b" in (await client.call_tool("shown_error")).content[0].text
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.get_prompt("refuse")
    assert caught.value.code == -32000
    assert caught.value.message.startswith(r"a\ud800b (the data of this error cannot be sent: a: the character 1")


@among(since("2025-06-18"))
async def test_messages_and_requests_of_a_handler(rev: Rev) -> None:
    app = App("half")
    seen: list[str] = []

    @app.tool
    async def ask(ctx: Context, what: str) -> str:
        sends: dict[str, Callable[[], Any]] = {
            "log": lambda: ctx.info(BAD),
            "data": lambda: ctx.log({"a": [BAD]}, level="warning"),
            "progress": lambda: ctx.report_progress(1, message=BAD),
            "form": lambda: ctx.elicit(BAD, str),
            "sample": lambda: ctx.sample(BAD),
        }
        try:
            await sends[what]()
        except UnwritableValueError as error:
            seen.append(str(error))
            raise
        return "sent"

    async def progress(progress: Any) -> None: ...

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("nothing arrives")

    meta = {"io.modelcontextprotocol/logLevel": "debug"} if rev.stateless else {}
    async with answering(rev, app, on_elicit=refuse, on_create_message=refuse) as client:
        for what in ("log", "data", "progress", "form", "sample"):
            options = {"progressToken": 5} if what == "progress" else {}
            with pytest.raises(RemoteJSONRPCError, match=f"internal error: .*{REASON}.*{REMEDY}") as caught:
                await client.call_tool("ask", {"what": what}, meta={**meta, **options})
            assert "params: " in caught.value.message, what
    assert len(seen) == 5, seen


async def test_a_log_record_is_forwarded_with_the_half_escaped() -> None:
    app, seen, arrived = App("half"), list[Any](), asyncio.Event()
    logger = logging.getLogger("half surrogates")
    logger.addHandler(handler := ClientLogHandler())
    logger.propagate = False  # pytest-xdist cannot pass on what is logged here.

    @app.tool
    def work() -> str:
        logger.warning("the file %s", BAD)
        return "done"

    async def note(*arguments: Any) -> None:
        seen.append(arguments[-1].data)
        arrived.set()

    try:
        async with answering(Rev("2025-11-25"), app, on_logging_message=note) as client:
            assert (await client.call_tool("work")).content[0].text == "done"
            await arrived.wait()
    finally:
        logger.removeHandler(handler)
    assert seen == [r"the file a\ud800b"]


@among(ALL_REVISIONS)
async def test_params_of_a_client(rev: Rev) -> None:
    server = server_of(rev, call_tool=lambda ctx, params: rev.text("x"))
    async with client_of(rev, server) as client:
        with pytest.raises(UnwritableValueError, match=f"'tools/call' .*params: arguments.a: {REASON}.*{REMEDY}"):
            await client.call_tool("any", {"a": BAD})


@among(since("2025-06-18"))
async def test_answers_of_a_client(rev: Rev) -> None:
    app = App("half")

    @app.tool
    async def ask(ctx: Context) -> str:
        try:
            return str(await ctx.elicit("who", str))
        except RemoteJSONRPCError as error:
            return str(error)

    async def answer(*arguments: Any) -> Any:
        return rev.t.ElicitResult(action="accept", content={"value": BAD})

    async with answering(rev, app, on_elicit=answer) as client:
        try:
            reason = (await client.call_tool("ask")).content[0].text
        except UnwritableValueError as error:  # Without a session the client sends the answer itself.
            reason = str(error)
    assert re.search(f"content.value: {REASON}.*{REMEDY}", reason), reason


def docstring() -> str:
    return "x"


docstring.__doc__ = BAD


def default(a: str = BAD) -> str:
    return a


def choice(a: Literal["a\ud800"] = "a\ud800") -> str:
    return a


REGISTRATIONS: dict[str, Callable[[App], Any]] = {
    "name": lambda app: App(BAD),
    "instructions": lambda app: App("a", BAD),
    "version": lambda app: App("a", version=BAD),
    "title": lambda app: App("a", title=BAD),
    "icons": lambda app: App("a", icons=[{"src": BAD}]).server,
    "description": lambda app: app.add_tool(docstring, description=BAD),
    "docstring": lambda app: app.add_tool(docstring),
    "default": lambda app: app.add_tool(default),
    "meta": lambda app: app.add_prompt(lambda: "a", "a", meta={"a": BAD}),
    "prompt": lambda app: app.add_prompt(docstring),
    "prompt name": lambda app: app.add_prompt(lambda: "a", BAD),
    "resource": lambda app: app.add_resource("data://a", docstring),
    "resource title": lambda app: app.add_resource("data://a", lambda: "a", title=BAD),
    "template": lambda app: app.add_resource("data://{a}", lambda a: a, description=BAD),
    "tag": lambda app: app.add_prompt(lambda: "a", "a", tags={BAD}),
    "class": lambda app: server_of(Rev("2025-11-25"), instructions=BAD),
}


def test_a_choice_that_no_client_can_send_is_refused() -> None:
    with pytest.raises(LocalError, match="a type of its parameters cannot be read: .*extracting str"):
        App("half").add_tool(choice)


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_what_is_registered_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(LocalError, match="cannot be sent.*half of a surrogate pair"):
        REGISTRATIONS[name](App("half"))


async def test_completions() -> None:
    from mcp_generated.v2026_07_28 import types as t

    app = App("half")
    app.add_prompt(lambda topic: topic, "write")

    @app.completion
    def suggest(ref: Any, argument: Any) -> list[str]:
        return [BAD]

    with pytest.raises(RemoteJSONRPCError, match=rf"completion.values\[0\]: {REASON}"):
        await app.complete(ref=t.PromptReference(name="write"), argument=t.CompletionArgument(name="topic", value=""))
