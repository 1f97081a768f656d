"""Servers that break off, lie, or do nothing: what our client makes of them, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from support.clock import LoopClock
from support.http.raw_server import (
    STREAM,
    Got,
    Raw,
    Write,
    always,
    call,
    reply,
    result,
    run,
    serving,
    text,
    text_result,
)

from mcp_generated import v2025_11_25
from mcp_runtime.errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    MCPError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.http.sse import KEEP_ALIVE_COMMENT, encode
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports.http_client.connection import HTTPOptions


def event(got: Got, value: Any, **more: Any) -> bytes:
    return encode(result(got, value), **more)


def streams(*parts: Any) -> Raw:
    """A server that answers a call by a stream of these parts; a function makes one of the request."""

    async def answer(got: Got, write: Write) -> None:
        await write(STREAM)
        for part in parts:
            await write(part(got) if callable(part) else part)

    return Raw({"tools/call": answer})


@pytest.mark.parametrize(
    "raw",
    [
        streams(lambda got: event(got, text_result("it"))),
        streams(b"\xef\xbb\xbf", lambda got: event(got, text_result("it"))),
        streams(lambda got: event(got, text_result("it")).replace(b"\n", b"\r")),
        streams(lambda got: event(got, text_result("it")).replace(b"\n", b"\r\n")),
        streams(KEEP_ALIVE_COMMENT * 100, lambda got: event(got, text_result("it"))),
        streams(b"data: not JSON\n\n", lambda got: event(got, text_result("it"))),
        streams(b"data:\n\n", b"event: other\ndata: {}\n\n", lambda got: event(got, text_result("it"))),
        streams(
            lambda got: encode(b'{"jsonrpc":"2.0","id":99,"result":{}}'), lambda got: event(got, text_result("it"))
        ),
        streams(lambda got: event(got, text_result("it\u2028it"))),
    ],
    ids=["plain", "BOM", "CR", "CRLF", "comments", "garbage", "empty", "wrong-id", "line-separator"],
)
@pytest.mark.fault("1.5/13", "1.5/14")
@pytest.mark.transport_rule("2026-07-28/15")
def test_an_answer_is_found_in_a_stream(raw: Raw) -> None:
    async def test() -> None:
        assert (await call(raw)).startswith("it")

    run(test())


@pytest.mark.parametrize(
    ("raw", "error", "reason"),
    [
        (streams(), ConnectionClosedError, "the stream ended before the response"),
        (streams(b"data: {"), ConnectionClosedError, "the stream ended before the response"),
        (streams(b"data: " + b"x" * 70_000), ConnectionClosedError, "longer than 65536 bytes"),
        (
            Raw({"tools/call": always(reply(b"{}", kind="text/html"))}),
            InvalidResponseError,
            "neither JSON nor an SSE stream",
        ),
        (Raw({"tools/call": always(reply(b"", 202))}), InvalidResponseError, "not JSON: EOF"),
        (Raw({"tools/call": always(reply(b"", 202, kind=""))}), InvalidResponseError, "status 202"),
        (Raw({"tools/call": always(reply(b"[]"))}), InvalidResponseError, "a batch must not be empty"),
        (
            Raw({"tools/call": always(reply(b'{"jsonrpc":"2.0","id":99,"result":{}}'))}),
            InvalidResponseError,
            "the response has the id of another request",
        ),
        (Raw({"tools/call": always(reply(b"x" * 70_000))}), InvalidResponseError, "longer than 65536 bytes"),
        (
            Raw({"tools/call": always(reply(b"x", headers={"content-encoding": "gzip"}))}),
            InvalidResponseError,
            "coding",
        ),
        (Raw({"tools/call": always(reply(b"{}")[:-1])}), ConnectionClosedError, "cut off"),
        (Raw({"tools/call": always(b"nonsense\r\n\r\n")}), ConnectionClosedError, "RemoteProtocolError"),
        (Raw({"tools/call": always(b"")}), ConnectionClosedError, "RemoteProtocolError"),
        (Raw({"tools/call": always(reply(b"oops", 500))}), HTTPStatusError, "status 500"),
        (Raw({"tools/call": always(reply(b"", 401))}), HTTPStatusError, "status 401"),
        (
            Raw({"tools/call": always(reply(b"", 307, headers={"location": "http://evil.invalid/"}))}),
            HTTPStatusError,
            "redirect",
        ),
        (Raw({"tools/call": always(reply(b"", 302, headers={"location": "/other"}))}), HTTPStatusError, "redirect"),
        (
            Raw({"tools/call": always(reply(b"", 307, headers={"location": "/mcp"}))}),
            HTTPStatusError,
            "more than 5 redirects",
        ),
    ],
)
@pytest.mark.fault("1.5/13", "1.5/14", "1.5/16")
def test_a_call_that_gets_no_answer_fails_at_once_and_alone(raw: Raw, error: type[MCPError], reason: str) -> None:
    async def test() -> None:
        async with serving(raw), v2025_11_25.Client.http(raw.url, http=HTTPOptions(max_bytes=65536)) as client:
            with pytest.raises(error, match=reason):
                await client.call_tool(name="x", options=RequestOptions(timeout=None))
            raw.answers.clear()
            assert text(await client.call_tool(name="x")) == "usual"

    run(test())


def test_an_error_of_json_rpc_is_one_whatever_its_status() -> None:
    async def refuse(got: Got, write: Write) -> None:
        error = {"jsonrpc": "2.0", "id": got.body["id"], "error": {"code": -32602, "message": "no", "data": 7}}
        await write(reply(json.dumps(error).encode(), 400))

    async def test() -> None:
        with pytest.raises(RemoteJSONRPCError, match="no") as caught:
            await call(Raw({"tools/call": refuse}))
        assert (caught.value.code, caught.value.data, caught.value.status) == (-32602, 7, 400)

    run(test())


@pytest.mark.parametrize("silent", [b"", STREAM, STREAM + KEEP_ALIVE_COMMENT])
@pytest.mark.clause("2025-03-26/transports/23")
@pytest.mark.fault("1.5/14")
def test_a_slow_answer_ends_at_the_deadline_of_the_call_and_the_server_is_told(silent: bytes) -> None:
    async def test() -> None:
        clock, started, notified, ended = LoopClock(), asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def wait(got: Got, write: Write) -> None:
            started.set()
            try:
                await write(silent)
                while True:
                    await asyncio.wait_for(notified.wait(), 20)
                    await write(KEEP_ALIVE_COMMENT)
            finally:
                ended.set()

        async def cancelled(got: Got, write: Write) -> None:
            await write(reply(b"", 202))
            notified.set()

        raw = Raw({"tools/call": wait, "notifications/cancelled": cancelled})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            slow = asyncio.create_task(client.call_tool(name="x", options=RequestOptions(timeout=5)))
            await started.wait()
            clock.forward(5)
            with pytest.raises(RequestTimeoutError):
                await slow
            await notified.wait()
            await ended.wait()
            [notification] = raw.requests_of("notifications/cancelled")
            assert notification.body["params"]["requestId"] == raw.requests_of("tools/call")[0].body["id"]

    run(test())


@pytest.mark.long
@pytest.mark.clause("2025-03-26/transports/31")
@pytest.mark.transport_rule("2025-11-25/04")
def test_a_stream_cut_anywhere_is_resumed_without_loss_or_doubling() -> None:
    seeded = random.Random(7)

    async def test() -> None:
        progress = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 0, "progress": number}}
            for number in range(1, 9)
        ]
        stored: dict[str, list[bytes]] = {}

        def events(got: Got) -> list[bytes]:
            token = got.body["id"]
            for update in progress:
                update["params"]["progressToken"] = token  # type: ignore[index]
            bodies = [b"", *(json.dumps(update).encode() for update in progress), result(got, text_result(str(token)))]
            return [encode(body, id=f"{token}-{number}", retry=0) for number, body in enumerate(bodies)]

        async def start(got: Got, write: Write) -> None:
            parts = stored[str(got.body["id"])] = events(got)
            await write(STREAM)
            await send(parts, write)

        async def resume(got: Got, write: Write) -> None:
            if "last-event-id" not in got.headers:
                await write(reply(b"", 405))
                return
            token, _, number = got.headers["last-event-id"].partition("-")
            await write(STREAM)
            await send(stored[token][int(number) + 1 :], write)

        async def send(parts: list[bytes], write: Write) -> None:
            whole = b"".join(parts)
            # At least one event arrives, so that there is always something to resume after.
            await write(whole[: seeded.randrange(len(parts[0]), max(len(whole) * 5 // 4, len(parts[0]) + 1))])

        raw = Raw({"tools/call": start, "GET": resume})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:

            async def one(number: int) -> None:
                values: list[float] = []
                options = RequestOptions(on_progress=lambda progress: values.append(progress.progress))
                outcome = text(await client.call_tool(name="x", arguments={"n": number}, options=options))
                assert outcome in stored and values == list(range(1, 9))

            for wave in range(0, 400, 50):
                await asyncio.gather(*(one(number) for number in range(wave, wave + 50)))
        resumed = [got for got in raw.requests_of("GET") if "last-event-id" in got.headers]
        assert len(resumed) >= 500 and all(got.headers["mcp-session-id"] == "s-1" for got in resumed)

    run(test())


def test_a_stream_that_cannot_be_resumed_fails_its_call_and_no_other() -> None:
    async def test() -> None:
        async def answer(got: Got, write: Write) -> None:
            await write(STREAM)
            if got.body["params"]["name"] == "cut":
                await write(encode(b"", id="e-1", retry=0))
            else:
                await asyncio.sleep(0)
                await write(event(got, text_result("fine")))

        raw = Raw({"tools/call": answer})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            calls = [client.call_tool(name="cut" if number == 4 else "fine") for number in range(10)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(outcomes[4], ConnectionClosedError) and "status 405" in str(outcomes[4])
            assert [text(outcome) for number, outcome in enumerate(outcomes) if number != 4] == ["fine"] * 9

    run(test())
