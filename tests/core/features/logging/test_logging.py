"""Log messages of a server: declared, filtered by severity, and sent to the client that asked for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    STATELESS,
    Rev,
    Tap,
    among,
    clause,
    client_of,
    server_of,
    wire_to,
)

from mcp_runtime.errors import InvalidMessageError, ProtocolViolationError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOGGING: dict[str, Any] = {"logging": {}}


def logging_server(rev: Rev, capabilities: dict[str, Any] | None = LOGGING, **more: Any) -> Any:
    """A server whose tool logs once on each level, the least severe first."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        for level in LEVELS:
            await ctx.log(level, {"level": level}, "the.logger")
        return rev.text("done")

    return server_of(rev, capabilities, call_tool=call_tool, **more)


class LogRecorder:
    """Takes log messages."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def on_logging_message(self, ctx: Any, params: Any) -> None:
        self.messages.append(params)

    @property
    def levels(self) -> list[str]:
        return [message.level for message in self.messages]


@clause("2024-11-05/logging/01", "2025-03-26/logging/01", "draft/logging/01")
@among(ALL_REVISIONS)
async def test_a_server_that_did_not_declare_it_cannot_log(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        with pytest.raises(
            ProtocolViolationError, match="'notifications/message' .* needs the capability 'server.logging'"
        ):
            await ctx.log("error", "text")
        return rev.text("refused")

    wants = RequestOptions(meta={"io.modelcontextprotocol/logLevel": "debug"} if rev.stateless else {})
    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        assert (await client.call_tool(name="x", options=wants)).content[0].text == "refused"


@clause("2024-11-05/logging/12", "2025-03-26/logging/12", "draft/logging/12")
@among(ALL_REVISIONS)
async def test_what_json_cannot_say_is_not_logged(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        for data in (object(), {"deep": [object()]}, "half a pair: \ud800"):
            with pytest.raises(InvalidMessageError, match="'notifications/message'"):
                await ctx.log("error", data)
        return rev.text("refused")

    wants = RequestOptions(meta={"io.modelcontextprotocol/logLevel": "debug"} if rev.stateless else {})
    recorder = LogRecorder()
    server = server_of(rev, LOGGING, call_tool=call_tool)
    async with client_of(rev, server, on_logging_message=recorder.on_logging_message) as client:
        assert (await client.call_tool(name="x", options=wants)).content[0].text == "refused"
    assert recorder.messages == []


@among(HANDSHAKE)
async def test_without_a_level_every_message_is_sent_as_it_was_given(rev: Rev) -> None:
    recorder = LogRecorder()
    async with client_of(rev, logging_server(rev), on_logging_message=recorder.on_logging_message) as client:
        await client.call_tool(name="x")
    assert recorder.levels == LEVELS
    assert (recorder.messages[0].data, recorder.messages[0].logger) == ({"level": "debug"}, "the.logger")


@among(HANDSHAKE)
@pytest.mark.parametrize("level", LEVELS)
async def test_messages_below_the_level_are_not_sent(rev: Rev, level: str) -> None:
    recorder = LogRecorder()
    async with client_of(rev, logging_server(rev), on_logging_message=recorder.on_logging_message) as client:
        await client.set_level(level=level)
        await client.call_tool(name="x")
    assert recorder.levels == LEVELS[LEVELS.index(level) :]


@among(HANDSHAKE)
async def test_the_level_is_that_of_one_client_and_the_handler_hears_of_it(rev: Rev) -> None:
    chosen: list[str] = []

    async def set_level(ctx: Any, params: Any) -> Any:
        chosen.append(params.level)
        return rev.t.EmptyResult()

    one, other = LogRecorder(), LogRecorder()
    server = logging_server(rev, None, set_level=set_level)
    async with (
        client_of(rev, server, on_logging_message=one.on_logging_message) as first,
        client_of(rev, server, on_logging_message=other.on_logging_message) as second,
    ):
        await first.set_level(level="emergency")
        await asyncio.gather(first.call_tool(name="x"), second.call_tool(name="x"))
    assert (one.levels, other.levels, chosen) == (["emergency"], LEVELS, ["emergency"])


@clause("2024-11-05/logging/02", "2025-03-26/logging/02", "draft/logging/02")
@among(HANDSHAKE)
async def test_an_unknown_level_is_refused_and_changes_nothing(rev: Rev) -> None:
    async with wire_to(logging_server(rev), opened=rev) as wire:
        for id, level in enumerate(["loud", "INFO", 3, None]):
            answer = await wire.request(rev.request(id, "logging/setLevel", {"level": level}))
            assert answer["error"]["code"] == INVALID_PARAMS
        wire.send(rev.request("x", "tools/call", {"name": "x"}))
        assert [(await wire.receive())["params"]["level"] for _ in LEVELS] == LEVELS


@clause("2024-11-05/logging/03", "2025-03-26/logging/03", "draft/logging/03")
@among(HANDSHAKE)
async def test_a_server_that_cannot_set_the_level_says_internal_error(rev: Rev) -> None:
    async def set_level(ctx: Any, params: Any) -> Any:
        raise OSError("the configuration is read-only")

    async with client_of(rev, logging_server(rev, None, set_level=set_level)) as client:
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.set_level(level="info")
    assert caught.value.code == INTERNAL_ERROR and "read-only" not in caught.value.message


@among(STATELESS)
async def test_without_sessions_each_request_says_which_messages_it_wants(rev: Rev) -> None:
    recorder = LogRecorder()
    options = RequestOptions(meta={"io.modelcontextprotocol/logLevel": "alert"})
    tap = Tap(logging_server(rev))
    async with client_of(rev, tap, on_logging_message=recorder.on_logging_message) as client:
        await client.call_tool(name="x", options=options)
        await client.call_tool(name="x")
    assert recorder.levels == ["alert", "emergency"]


@among(STATELESS)
async def test_without_sessions_no_level_can_be_set(rev: Rev) -> None:
    assert not hasattr(rev.package.Client, "set_level") and not hasattr(rev.t, "SetLevelRequest")
    async with wire_to(logging_server(rev)) as wire:
        answer = await wire.request(rev.request(1, "logging/setLevel", {"level": "info"}))
        assert answer["error"]["code"] == METHOD_NOT_FOUND
