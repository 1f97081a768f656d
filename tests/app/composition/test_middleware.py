"""Middleware objects: hooks by kind of message, and the ready ones."""

from collections.abc import Callable
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among

from mcp_generated import App, Context, JSONRPCError, LocalError, MCPError, Middleware, MiddlewareContext, ToolError
from mcp_generated.middleware import (
    TimingMiddleware,
)
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.server.context import ServerContext


class Note(Middleware):
    """Note the messages of all kinds."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def on_message(self, context: MiddlewareContext, call_next: Any) -> Any:
        self.events.append(f"message {context.name}")
        try:
            return await call_next(context)
        finally:
            self.events.append("end")

    async def on_request(self, context: MiddlewareContext, call_next: Any) -> Any:
        self.events.append(f"request {context.method}")
        return await call_next(context)

    async def on_notification(self, context: MiddlewareContext, call_next: Any) -> Any:
        self.events.append(f"notification {context.method}")
        return await call_next(context)


class NoteAll(Note):
    """Note the hooks of the kinds of messages."""


def noting(name: str) -> Callable[..., Any]:
    async def hook(self: Note, context: MiddlewareContext, call_next: Any) -> Any:
        assert isinstance(context.ctx, ServerContext) and context.fastmcp_context is context.ctx
        self.events.append(name)
        return await call_next(context)

    return hook


HOOKS = ["on_call_tool", "on_read_resource", "on_get_prompt", "on_list_tools", "on_list_resources"]
HOOKS += ["on_list_resource_templates", "on_list_prompts", "on_complete", "on_initialize", "on_discover"]
for hook in HOOKS:
    setattr(NoteAll, hook, noting(hook))


def example(*middleware: Any, **keywords: Any) -> App:
    """An app with a tool, a resource, a template and a prompt."""
    app = App("app", middleware=middleware, **keywords)

    @app.tool(tags={"read"})
    def add(a: int, b: int) -> str:
        return str(a + b)

    @app.tool(tags={"admin"})
    def erase() -> str:
        return "erased"

    @app.resource("notes://today")
    def today() -> str:
        return "a note"

    @app.resource("notes://{day}/x", tags={"admin"})
    def day(day: str) -> str:
        return day

    @app.prompt(tags={"admin"})
    def greet(name: str) -> str:
        return f"Greet {name}"

    @app.completion()
    def suggest(ref: Any, argument: Any) -> list[str]:
        return ["Ann"]

    return app


async def use_everything(rev: Rev, app: App) -> None:
    """Call each method of an app, with a client of a revision."""
    async with rev.package.Client.memory(*server_candidates(app.server, "all")) as client:
        await client.call_tool(name="add", arguments={"a": 1, "b": 2})
        await client.read_resource(uri="notes://today")
        await client.get_prompt(name="greet", arguments={"name": "Ann"})
        for name in ("tools", "resources", "resource_templates", "prompts"):
            assert getattr(await getattr(client, f"list_{name}")(), name)
        ref = rev.t.PromptReference(name="greet")
        await client.complete(ref=ref, argument=rev.t.CompletionArgument(name="name", value=""))


@among(ALL_REVISIONS)
async def test_each_kind_of_message_has_its_hook(rev: Rev) -> None:
    note = NoteAll()
    await use_everything(rev, example(note))
    other = "on_initialize" if rev.stateless else "on_discover"
    assert {event for event in note.events if event.startswith("on_")} == {*HOOKS} - {other}
    assert note.events.count("end") == len([event for event in note.events if event.startswith("message")])
    i = note.events.index("message call_tool")
    assert note.events[i : i + 4] == ["message call_tool", "request tools/call", "on_call_tool", "end"]
    assert rev.stateless or "notification notifications/initialized" in note.events


@among(ALL_REVISIONS)
async def test_a_middleware_can_refuse_a_client(rev: Rev) -> None:
    class Refuse(Middleware):
        async def on_initialize(self, context: MiddlewareContext, call_next: Any) -> Any:
            await call_next(context)
            assert context.message.client_info.name
            raise JSONRPCError(-32000, "this client is not welcome")

        async def on_discover(self, context: MiddlewareContext, call_next: Any) -> Any:
            raise JSONRPCError(-32000, "this client is not welcome")

    with pytest.raises(MCPError, match="not welcome"):
        await use_everything(rev, example(Refuse()))


async def test_middleware_runs_in_order_and_can_change_messages_and_results() -> None:
    events: list[str] = []

    class Change(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def on_call_tool(self, context: MiddlewareContext, call_next: Any) -> Any:
            events.append(self.name)
            arguments = {**context.message.arguments, "a": context.message.arguments["a"] + 1}
            result = await call_next(context.copy(message=context.message.model_copy(update={"arguments": arguments})))
            events.append(f"{self.name} ends")
            return result

        async def on_list_tools(self, context: MiddlewareContext, call_next: Any) -> Any:
            return [tool for tool in await call_next(context) if tool.name != "erase"]

    app = example(Change("first"))

    @app.middleware
    async def function(name: str, ctx: Context, params: Any, call_next: Any) -> Any:
        if name == "call_tool":
            events.append("function")
        return await call_next(ctx, params)

    app.add_middleware(Change("last"))
    assert (await app.call_tool("add", {"a": 1, "b": 1})).content[0].text == "4"  # type: ignore[union-attr]
    assert events == ["first", "function", "last", "last ends", "first ends"]
    assert [tool.name for tool in await app.list_tools()] == ["add"]


async def test_a_hook_of_a_list_can_return_a_list_of_its_own() -> None:
    class Own(Middleware):
        async def on_list_prompts(self, context: MiddlewareContext, call_next: Any) -> Any:
            return []

    assert await example(Own()).list_prompts() == []


async def test_a_callable_with_two_parameters_is_middleware() -> None:
    methods: list[str | None] = []

    async def middleware(context: MiddlewareContext, call_next: Any) -> Any:
        methods.append(context.method)
        return await call_next(context)

    app = example(middleware)
    await app.list_prompts()
    assert "prompts/list" in methods


def test_wrong_middleware_is_refused_where_it_is_written() -> None:
    app = App("app")
    with pytest.raises(LocalError, match=r"not the class TimingMiddleware: write TimingMiddleware\(\)"):
        app.add_middleware(TimingMiddleware)
    with pytest.raises(LocalError, match=r"does not take \(context, call_next\)"):
        app.add_middleware(lambda name, ctx, params, call_next: None)  # type: ignore[arg-type, misc]
    with pytest.raises(LocalError, match="'on_tool_call', which is not a hook; did you mean 'on_call_tool'"):
        type("Typo", (Middleware,), {"on_tool_call": noting("x")})


# ---- what middleware sees of errors ----------------------------------------------------------------------------------


def failing(*middleware: Any, errors: list[Exception], **keywords: Any) -> App:
    """An app whose tool raises the exceptions, one a call, and then succeeds."""
    app = App("failing", middleware=middleware, **keywords)

    @app.tool()
    def work() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    @app.resource("work://x")
    def read() -> str:
        return work()

    return app


class Catch(Middleware):
    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def on_call_tool(self, context: MiddlewareContext, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except Exception as error:
            self.errors.append(error)
            raise


@pytest.mark.parametrize("mounted", [False, True])
async def test_middleware_gets_the_exception_of_a_tool_and_the_client_what_its_app_shows(mounted: bool) -> None:
    catch, inside = Catch(), Catch()
    errors: list[Exception] = [KeyError("shown"), OSError("secret"), ToolError("text"), JSONRPCError(-32001, "code")]
    raised = list(errors)
    app = failing(inside, errors=errors, tool_errors=(KeyError,))
    app.add_middleware(catch)
    if mounted:
        inner, app = app, App("outer", middleware=[Catch()])
        app.mount(inner, "sub")
    name = "sub_work" if mounted else "work"
    for expected in ("'shown'", f"the tool '{'work'}' failed", "text"):
        result = await app.call_tool(name)
        assert result.is_error and result.content[0].text == expected  # type: ignore[union-attr]
    with pytest.raises(RemoteJSONRPCError, match="code"):
        await app.call_tool(name)
    assert catch.errors == inside.errors == raised
    assert (await app.call_tool(name)).content[0].text == "done"  # type: ignore[union-attr]


async def test_middleware_itself_can_fail_a_call() -> None:
    class Deny(Middleware):
        async def on_call_tool(self, context: MiddlewareContext, call_next: Any) -> Any:
            if context.message.name == "erase":
                raise ToolError("not today")
            raise OSError("secret")

    app = example(Deny())
    assert (await app.call_tool("erase")).content[0].text == "not today"  # type: ignore[union-attr]
    result = await app.call_tool("add", {"a": 1, "b": 2})
    assert result.is_error and "secret" not in str(result)
