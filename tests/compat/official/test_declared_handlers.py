"""A low-level server declares what it has handlers of, also those that are added by their methods."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from mcp_generated import connect
from mcp_generated.compat import (
    Client,
    ClientSession,
    McpError,
    Server,
    create_connected_server_and_client_session,
    types,
)
from mcp_products.compat.forms.form import FORM
from mcp_products.compat.streams.message import create_client_server_memory_streams

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602


class Query(BaseModel):
    """The params of a method of a vendor."""

    text: str
    limit: int = 3


def talker(**handlers: Any) -> Server[Any]:
    """A server whose tool logs, whether or not it has a handler of levels."""
    server: Server[Any] = Server("talker", **handlers)

    @server.list_tools()
    async def tools() -> list[Any]:
        return [types.Tool(name="say", input_schema={"type": "object"})]

    @server.call_tool()
    async def call(name: str, arguments: dict[str, Any]) -> list[Any]:
        await server.request_context.session.send_log_message("warning", "said")
        return []

    return server


async def set_level(ctx: Any, params: Any) -> Any:
    return types.EmptyResult()


@pytest.mark.parametrize("version", FORM.handshakes)
async def test_a_server_without_a_handler_of_levels_declares_none_and_logs_all_the_same(
    version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FORM, "handshakes", (version,))
    heard: list[Any] = []

    async def hear(params: Any) -> None:
        heard.append(params.data)

    async with create_connected_server_and_client_session(talker(), logging_callback=hear) as session:
        opened = await session.initialize()
        assert (opened.protocol_version, opened.capabilities.logging) == (version, None)
        assert opened.capabilities.tools is not None
        with pytest.raises(McpError) as raised:
            await session.set_logging_level("error")
        assert raised.value.error.code == METHOD_NOT_FOUND
        await session.call_tool("say", {})
        await session.send_ping()
    assert heard == ["said"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_discovery_tells_of_the_handlers_too() -> None:
    async with Client(talker()) as client:
        assert client.protocol_version in FORM.stateless
        assert client.server_capabilities.logging is None and client.server_capabilities.tools is not None


async def test_a_server_with_a_handler_of_levels_declares_it() -> None:
    server = talker(on_set_logging_level=set_level)
    assert server.get_capabilities().logging is not None and talker().get_capabilities().logging is None
    async with create_connected_server_and_client_session(server) as session:
        assert (await session.initialize()).capabilities.logging is not None
        await session.set_logging_level("error")


async def test_what_a_program_declares_itself_is_told() -> None:
    server = talker()
    options = server.create_initialization_options()
    options.capabilities = types.ServerCapabilities(logging=types.LoggingCapability(), tools=types.ToolsCapability())
    async with create_client_server_memory_streams() as (client, (read, write)), anyio.create_task_group() as group:
        group.start_soon(server.run, read, write, options)
        async with ClientSession(*client) as session:
            assert (await session.initialize()).capabilities.logging is not None
        group.cancel_scope.cancel()


async def test_handlers_are_added_by_their_methods() -> None:
    server, seen = talker(), list[Any]()

    async def prompts(ctx: Any, params: types.PaginatedRequestParams) -> Any:
        seen.append((type(params), params.cursor))
        return types.ListPromptsResult(prompts=[types.Prompt(name="ask")])

    async def search(ctx: Any, params: Query) -> dict[str, Any]:
        seen.append((params.text, params.limit, ctx.session is not None))
        return {"found": [params.text]}

    async def moved(ctx: Any, params: Query) -> None:
        seen.append(params.text)

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, prompts)
    server.add_request_handler("acme/search", Query, search)
    server.add_notification_handler("acme/moved", Query, moved)
    entry = server.get_request_handler("acme/search")
    assert entry is not None and (entry.params_type, entry.handler) == (Query, search)
    assert server.get_notification_handler("acme/moved") is not None
    assert server.get_request_handler("acme/moved") is None
    assert server.get_capabilities().prompts is not None
    async with connect(server.bind()) as client:
        assert [prompt.name for prompt in await client.list_prompts()] == ["ask"]
        assert (await client.request("acme/search", {"text": "tea"}))["found"] == ["tea"]
        await client.notify("acme/moved", {"text": "shop"})
        with pytest.raises(Exception) as raised:
            await client.request("acme/search", {"limit": 1})
        assert getattr(raised.value, "code", None) == INVALID_PARAMS
    assert seen == [(types.PaginatedRequestParams, None), ("tea", 3, True), "shop"]


async def test_the_handlers_of_the_constructor_are_found_by_their_methods() -> None:
    server = talker(on_set_logging_level=set_level)
    entry = server.get_request_handler("logging/setLevel")
    assert entry is not None and (entry.params_type, entry.handler) == (types.SetLevelRequestParams, set_level)


@pytest.mark.parametrize("method", ["initialize", "server/discover", "subscriptions/listen"])
def test_what_the_runtime_answers_has_no_handlers(method: str) -> None:
    with pytest.raises(ValueError, match=f"{method!r} is answered"):
        talker().add_request_handler(method, types.RequestParams, set_level)


async def test_a_handler_of_any_method_with_rounds_asks_for_input() -> None:
    seen: list[Any] = []

    def asking(final: Any) -> Any:
        async def handle(ctx: Any, params: Any) -> Any:
            seen.append((params.request_state, [*(params.input_responses or ())]))
            if params.request_state is not None:
                return final
            form = types.ElicitRequestFormParams(message="who?", requested_schema={"type": "object", "properties": {}})
            asked = {"who": types.ElicitRequest(params=form)}
            return types.InputRequiredResult(input_requests=asked, request_state="asked")

        return handle

    async def elicit(ctx: Any, params: Any) -> Any:
        return types.ElicitResult(action="decline")

    server = Server(
        "asker",
        on_call_tool=asking(types.CallToolResult(content=[])),
        on_get_prompt=asking(types.GetPromptResult(messages=[])),
        on_read_resource=asking(types.ReadResourceResult(contents=[])),
    )
    async with Client(server, elicitation_callback=elicit) as client:
        assert (await client.call_tool("any")).content == []
        assert (await client.get_prompt("any")).messages == []
        assert (await client.read_resource("any://one")).contents == []
        with pytest.raises(RuntimeError, match="requires input"):
            await client.session.call_tool("any")
    assert seen == 3 * [(None, []), ("asked", ["who"])] + [(None, [])]
