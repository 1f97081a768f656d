"""A client of an App: by `connect` and `Client.memory`, in each revision, asynchronous and synchronous."""

from __future__ import annotations

import asyncio
import json
import logging
from importlib import import_module
from typing import Any

import pytest
from support.clients import connect

import mcp_generated
from mcp_generated import (
    REVISIONS,
    App,
    ConnectionClosedError,
    Context,
    LocalError,
    Progress,
    to_anthropic,
    to_openai,
)
from mcp_generated.v2026_07_28 import Client, Server, SyncClient
from mcp_generated.v2026_07_28 import types as t

MODULES = [import_module(f"mcp_generated.{name}") for name in REVISIONS.values()]
ALL_MODULES = pytest.mark.parametrize("module", MODULES, ids=list(REVISIONS))


def weather() -> App:
    app = App("weather", "Ask for a city.", version="1.2")

    @app.tool()
    async def forecast(ctx: Context, city: str, days: int = 1) -> str:
        """The forecast of a city."""
        for day in range(3):
            await ctx.progress(day + 1, 3, f"day {day + 1}")
        return f"{city}: sun"

    @app.resource("city://{name}")
    def city(name: str) -> str:
        return name.upper()

    @app.prompt()
    def travel(city: str) -> str:
        return f"Go to {city}."

    return app


class Plain(Server):
    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        tool = t.Tool(name="echo", input_schema=t.ToolInputSchema())
        return t.ListToolsResult(tools=[tool], ttl_ms=0, cache_scope="private")


def text_of(result: Any) -> str:
    return str(result.content[0].text)


# ---- connecting ------------------------------------------------------------------------------------------------------


@ALL_MODULES
async def test_the_client_of_each_revision_calls_an_app(module: Any) -> None:
    async with module.Client.memory(weather()) as client:
        assert text_of(await client.call_tool("forecast", {"city": "Oslo"})) == "Oslo: sun"
        assert (await client.read_resource("city://oslo")).contents[0].text == "OSLO"


@ALL_MODULES
async def test_the_client_of_each_revision_lists_the_tools_of_a_server_of_another_one(module: Any) -> None:
    async with module.Client.memory(Plain(name="plain", version="1")) as client:
        assert [tool.name async for tool in client.iter_tools()] == ["echo"]


@pytest.mark.parametrize("chosen", REVISIONS)
async def test_connect_takes_an_app_and_any_choice_of_revisions(chosen: str) -> None:
    async with connect(weather()) as client:
        assert text_of(await client.call_tool("forecast", {"city": "Oslo"})) == "Oslo: sun"
    async with connect(weather(), revisions=[chosen]) as client:
        assert text_of(await client.call_tool("forecast", {"city": "Rome"})) == "Rome: sun"


@ALL_MODULES
def test_a_synchronous_client_has_all_that_the_client_has(module: Any) -> None:
    names = {name for name in dir(module.Client) if not name.startswith(("_", "on_"))}
    # What products take of a client: the Client of any server has `request` and `notify`, and its SyncClient too.
    assert names - set(dir(module.SyncClient)) == {"parts", "request_own", "notify_own", "options_with"}


@ALL_MODULES
def test_a_synchronous_client_connects_to_an_app(module: Any) -> None:
    for client in (module.SyncClient.connect(weather()), module.SyncClient.memory(weather())):
        with client:
            assert (client.server.name, client.server.version) == ("weather", "1.2")
            assert client.server.instructions == "Ask for a city."
            assert client.revision is module.Client.revision
            assert [tool.name for tool in client.iter_tools()] == ["forecast"]
            assert [prompt.name for prompt in client.iter_prompts()] == ["travel"]
            assert [template.name for template in client.iter_resource_templates()] == ["city"]
            assert text_of(client.call_tool("forecast", {"city": "Oslo"})) == "Oslo: sun"
        client.close()
        with pytest.raises(ConnectionClosedError):
            client.list_tools()


# ---- what the server is ----------------------------------------------------------------------------------------------


@ALL_MODULES
async def test_the_server_has_its_name_in_each_revision(module: Any) -> None:
    client = module.Client.memory(weather())
    with pytest.raises(ConnectionClosedError, match="async with"):
        client.server.name
    async with client:
        server = client.server
        assert (server.name, server.version, server.title) == ("weather", "1.2", None)
        assert server.instructions == "Ask for a city."
        assert server.capabilities.tools is not None and server.capabilities.logging == {}
        assert json.loads(json.dumps(server.to_dict()))["instructions"] == "Ask for a city."


def test_a_server_without_a_name_has_an_empty_one() -> None:
    result = t.DiscoverResult(
        supported_versions=["2026-07-28"], capabilities=t.ServerCapabilities(), ttl_ms=0, cache_scope="private"
    )
    assert (result.name, result.version, result.title) == ("", "", None)


# ---- progress --------------------------------------------------------------------------------------------------------


@ALL_MODULES
async def test_progress_callbacks_may_be_coroutine_functions_and_run_in_order(module: Any) -> None:
    events: list[str] = []

    async def show(progress: Progress) -> None:
        events.append(f"start {progress.progress:g}")
        for _ in range(int(4 - progress.progress) * 3):
            await asyncio.sleep(0)
        events.append(f"end {progress.progress:g}")

    async with module.Client.memory(weather()) as client:
        await client.call_tool("forecast", {"city": "Oslo"}, on_progress=show)
    assert events == ["start 1", "end 1", "start 2", "end 2", "start 3", "end 3"]


async def test_a_progress_callback_that_fails_harms_neither_the_call_nor_the_next_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[float] = []

    async def show(progress: Progress) -> None:
        seen.append(progress.progress)
        if progress.progress == 1:
            raise ValueError("the terminal is gone")

    async with Client.memory(weather()) as client:
        assert text_of(await client.call_tool("forecast", {"city": "Oslo"}, on_progress=show)) == "Oslo: sun"
    assert seen == [1, 2, 3]
    # asyncio may report what an earlier test has left.
    records = [record for record in caplog.records if record.name.startswith("mcp_runtime")]
    ours = [record.getMessage() for record in records if record.levelno >= logging.WARNING]
    assert ours == ["the progress callback of 'tools/call' failed"]


def test_a_synchronous_client_takes_a_coroutine_function_for_progress() -> None:
    seen: list[str | None] = []

    async def show(progress: Progress) -> None:
        await asyncio.sleep(0)
        seen.append(progress.message)

    with SyncClient.memory(weather()) as client:
        client.call_tool("forecast", {"city": "Oslo"}, on_progress=show)
    assert seen == ["day 1", "day 2", "day 3"]


# ---- JSON and functions of models ------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
    "required": ["city"],
}


def without_titles(schema: Any) -> Any:
    if isinstance(schema, dict):
        hidden = ("title", "additionalProperties", "$schema")
        return {name: without_titles(value) for name, value in schema.items() if name not in hidden}
    return schema


@ALL_MODULES
async def test_schemas_results_and_lists_become_json(module: Any) -> None:
    async with module.Client.memory(weather()) as client:
        listed = await client.list_tools()
        schema = json.loads(json.dumps(listed.tools[0].input_schema.to_dict()))
        assert without_titles(schema) == SCHEMA
        assert json.loads(json.dumps(listed.to_dict()))["tools"][0]["inputSchema"] == schema
        result = json.loads(json.dumps((await client.call_tool("forecast", {"city": "Oslo"})).to_dict()))
        assert result["content"] == [{"type": "text", "text": "Oslo: sun"}]


@ALL_MODULES
async def test_tools_become_functions_of_openai_and_anthropic(module: Any) -> None:
    async with module.Client.memory(weather()) as client:
        listed = await client.list_tools()
    name, description = "forecast", "The forecast of a city."
    [chat], [response], [message] = listed.to_openai(), listed.to_openai("responses"), listed.to_anthropic()
    schema = listed.tools[0].input_schema.to_dict()
    function = {"name": name, "description": description, "parameters": schema}
    assert chat == {"type": "function", "function": function}
    assert response == {"type": "function", **function, "strict": False}
    assert message == {"name": name, "description": description, "input_schema": schema}
    assert to_openai(listed.tools) == [chat] and to_anthropic(listed.tools) == [message]
    assert json.loads(json.dumps([chat, response, message])) == [chat, response, message]


@ALL_MODULES
def test_a_name_that_an_api_rejects_is_refused_with_the_remedy(module: Any) -> None:
    def tool(name: str) -> Any:
        return module.types.Tool.model_validate({"name": name, "inputSchema": {"type": "object"}})

    for name in ("files/read", "a b", "", "n" * 129, "fee.foo", "größe", "x\n"):
        for convert in (tool(name).to_openai, tool(name).to_anthropic):
            with pytest.raises(LocalError, match="model_copy"):
                convert()
    assert tool("n" * 128).to_anthropic() == {"name": "n" * 128, "input_schema": {"type": "object"}}
    with pytest.raises(LocalError, match="64"):
        tool("n" * 65).to_openai()
    with pytest.raises(LocalError, match='"chat" or "responses"'):
        tool("x").to_openai("completions")
    renamed = tool("files/read").model_copy(update={"name": "files_read"})
    assert renamed.to_openai()["function"]["name"] == "files_read"


@pytest.mark.parametrize(
    ("annotations", "hints"),
    [
        (None, (False, True, False, True)),
        ({}, (False, True, False, True)),
        ({"readOnlyHint": True}, (True, False, True, True)),
        ({"readOnlyHint": True, "destructiveHint": True, "idempotentHint": False}, (True, False, True, True)),
        ({"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}, (False, False, True, False)),
    ],
)
def test_hints_that_are_absent_have_the_defaults_of_the_specification(annotations: Any, hints: Any) -> None:
    for module in MODULES:
        fields: dict[str, Any] = {"name": "x", "inputSchema": {"type": "object"}}
        if annotations is not None and hasattr(module.types, "ToolAnnotations"):
            fields["annotations"] = annotations
        elif annotations:
            continue  # The revision has no annotations.
        tool_hints = module.types.Tool.model_validate(fields).hints
        assert (tool_hints.read_only, tool_hints.destructive, tool_hints.idempotent, tool_hints.open_world) == hints


def test_the_functions_are_public() -> None:
    assert {"to_openai", "to_anthropic", "ToolHints"} <= {*mcp_generated.__all__}
