"""An app and its host go in: they open their conversation, and say what the apps extension has them say."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace

import pytest
from pydantic import ValidationError
from support.servers.apps_host import Window
from support.view import HOST, View, text_of

from mcp_generated.extensions.apps import App, SyncApp
from mcp_generated.extensions.apps import types as t
from mcp_generated.v2025_11_25 import types as core
from mcp_runtime.errors import LocalError, ProtocolViolationError, RemoteError

WAIT = 60


async def converse(view: View) -> None:
    """What every app and this host have to say to each other."""
    async with view as app:
        opened = app.server
        assert isinstance(opened, t.McpUiInitializeResult)
        assert (opened.protocol_version, opened.host_info.name) == (View.revision.id, "window")
        assert opened.host_context.theme == "dark"
        styles = opened.host_context.styles
        assert styles is not None and styles.variables is not None
        assert styles.variables.font_sans == "Inter"
        assert opened.host_context.model_extra == {"newer": 1}
        assert opened.host_capabilities.open_links == {}
        await asyncio.wait_for(app.done.wait(), WAIT)
        assert app.shown == ["Rome", "sunny"]
        assert (await app.open_link(url="https://example.org/")).is_error is None
        assert (await app.open_link(url="file:///etc/passwd")).is_error is True
        assert text_of(await app.call_tool(name="forecast")) == "forecast ran"
        assert text_of(await app.call_tool(name="ask-the-app")) == "here"
        assert (await app.request_display_mode(mode="fullscreen")).mode == "inline"
        await app.message(role="user", content=[t.TextContent(text="and tomorrow?")])
        await app.ping()


async def test_an_app_and_a_host_talk_in_one_process() -> None:
    host = Window(capabilities={"logging": {}})
    view = View.memory(host, name="view", version="1")
    await converse(view)
    assert host.messages == ["and tomorrow?"]
    assert view.shown == ["Rome", "sunny", "inline"]


async def test_an_app_and_a_host_talk_over_stdio() -> None:
    await converse(View.stdio(sys.executable, HOST, name="view", version="1"))


@pytest.mark.long
def test_an_app_without_an_event_loop_talks_over_stdio() -> None:
    with SyncApp.stdio(sys.executable, HOST, name="view", version="1") as app:
        assert app.request_display_mode(mode="pip").mode == "inline"


async def test_what_a_host_has_not_declared_is_not_asked_of_it() -> None:
    async with View.memory(Window(), name="view", version="1") as app:
        with pytest.raises(ProtocolViolationError, match="server.downloadFile"):
            await app.download_file(contents=[])
        with pytest.raises(ProtocolViolationError, match="server.logging"):
            await app.notify_logging_message(level="info", data="careful")


async def test_what_an_app_has_not_declared_is_not_asked_of_it() -> None:
    async with App.memory(Window(), name="view", version="1") as app:
        with pytest.raises(RemoteError, match="needs the capability 'client.tools', which was not declared"):
            await app.call_tool(name="ask-the-app")


async def test_a_host_hears_the_log_of_an_app_where_it_declares_that() -> None:
    host = Window(capabilities={"logging": {}})
    async with View.memory(host, name="view", version="1") as app:
        await app.notify_logging_message(level="info", data="careful")
        await app.ping()
    assert host.messages == ["info: careful"]


async def test_a_host_of_another_version_is_left() -> None:
    class Older(Window):
        revision = replace(Window.revision, id="2025-11-21")

    with pytest.raises(LocalError, match="the server supports '2025-11-21'"):
        async with View.memory(Older(), name="view", version="1"):
            raise AssertionError("the conversation opened")


def test_values_of_the_core_are_the_same_classes_in_an_app() -> None:
    assert t.CallToolResult is core.CallToolResult
    assert t.Tool is core.Tool
    assert t.McpUiHostContextToolInfo.model_fields["tool"].annotation is core.Tool
    assert t.McpUiToolResultNotification.model_fields["params"].annotation is core.CallToolResult


def test_what_the_schema_closes_is_read_all_the_same_and_what_it_says_is_kept_to() -> None:
    assert t.McpUiResourceCsp.model_validate({"newer": []}).model_extra == {"newer": []}
    with pytest.raises(ValidationError):
        t.McpUiToolMeta.model_validate({"visibility": ["everybody"]})


def test_the_view_of_a_tool_travels_in_its_metadata() -> None:
    view = t.McpUiToolMeta(resource_uri="ui://forecast", visibility=["model"])
    tool = t.Tool(name="forecast", input_schema=t.ToolInputSchema(), meta={"ui": view.model_dump()})
    assert json.loads(tool.model_dump_json())["_meta"] == {
        "ui": {"resourceUri": "ui://forecast", "visibility": ["model"]}
    }
