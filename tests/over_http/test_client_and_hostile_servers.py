"""Servers that break off, lie, or do nothing: what our client makes of them, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from typing import Any

import pytest
from over_http.raw_server import (
    NEWEST_WITH_SESSIONS,
    STREAM,
    Got,
    Raw,
    Write,
    always,
    reply,
    result,
    run,
    said,
    serving,
)

from mcp_generated import v2025_11_25, v2026_07_28
from mcp_runtime.errors import ErrorResponse, InvalidResponse, McpError, NotConnected, Rejected, TimedOut
from mcp_runtime.faces.calls import Options
from mcp_runtime.faces.client import negotiate
from mcp_runtime.sse import COMMENT, encode
from mcp_runtime.transports.http_client.channel import Reach

SHORT = Options(timeout=0.3)


def text(result: Any) -> str:
    return str(result.content[0].text)


def event(got: Got, value: Any, **more: Any) -> bytes:
    return encode(result(got, value), **more)


async def call(raw: Raw, options: Options | None = None, reach: Reach | None = None) -> str:
    """Open, call a tool, close."""
    async with serving(raw), v2025_11_25.Client.http(raw.url, reach=reach) as client:
        return text(await client.call_tool(name="x", options=options))


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
        streams(lambda got: event(got, said("it"))),
        streams(b"\xef\xbb\xbf", lambda got: event(got, said("it"))),
        streams(lambda got: event(got, said("it")).replace(b"\n", b"\r")),
        streams(lambda got: event(got, said("it")).replace(b"\n", b"\r\n")),
        streams(COMMENT * 100, lambda got: event(got, said("it"))),
        streams(b"data: not JSON\n\n", lambda got: event(got, said("it"))),
        streams(b"data:\n\n", b"event: other\ndata: {}\n\n", lambda got: event(got, said("it"))),
        streams(lambda got: encode(b'{"jsonrpc":"2.0","id":99,"result":{}}'), lambda got: event(got, said("it"))),
        streams(lambda got: event(got, said("it\u2028it"))),
    ],
    ids=["plain", "BOM", "CR", "CRLF", "comments", "garbage", "empty", "wrong-id", "line-separator"],
)
def test_an_answer_is_found_in_a_stream(raw: Raw) -> None:
    async def test() -> None:
        assert (await call(raw)).startswith("it")

    run(test())


@pytest.mark.parametrize(
    ("raw", "fault", "why"),
    [
        (streams(), NotConnected, "the stream ended before the answer came"),
        (streams(b"data: {"), NotConnected, "the stream ended before the answer came"),
        (streams(b"data: " + b"x" * 70_000), NotConnected, "longer than 65536 bytes"),
        (Raw({"tools/call": always(reply(b"{}", kind="text/html"))}), InvalidResponse, "no message and no stream"),
        (Raw({"tools/call": always(reply(b"", 202))}), InvalidResponse, "status 202"),
        (Raw({"tools/call": always(reply(b"[]"))}), InvalidResponse, "not one to this request"),
        (Raw({"tools/call": always(reply(b'{"jsonrpc":"2.0","id":99,"result":{}}'))}), InvalidResponse, "not one to"),
        (Raw({"tools/call": always(reply(b"x" * 70_000))}), InvalidResponse, "longer than 65536 bytes"),
        (Raw({"tools/call": always(reply(b"x", headers={"content-encoding": "gzip"}))}), InvalidResponse, "coding"),
        (Raw({"tools/call": always(reply(b"{}")[:-1])}), NotConnected, "broke off"),
        (Raw({"tools/call": always(b"nonsense\r\n\r\n")}), NotConnected, "RemoteProtocolError"),
        (Raw({"tools/call": always(b"")}), NotConnected, "RemoteProtocolError"),
        (Raw({"tools/call": always(reply(b"oops", 500))}), Rejected, "status 500"),
        (Raw({"tools/call": always(reply(b"", 401))}), Rejected, "status 401"),
        (
            Raw({"tools/call": always(reply(b"", 307, headers={"location": "http://evil.invalid/"}))}),
            Rejected,
            "redirect",
        ),
        (Raw({"tools/call": always(reply(b"", 302, headers={"location": "/other"}))}), Rejected, "redirect"),
        (Raw({"tools/call": always(reply(b"", 307, headers={"location": "/mcp"}))}), Rejected, "more than 5 redirects"),
    ],
)
def test_a_call_that_gets_no_answer_fails_at_once_and_alone(raw: Raw, fault: type[McpError], why: str) -> None:
    async def test() -> None:
        async with serving(raw), v2025_11_25.Client.http(raw.url, reach=Reach(limit=65536)) as client:
            with pytest.raises(fault, match=why):
                await client.call_tool(name="x", options=Options(timeout=None))
            raw.answers.clear()
            assert text(await client.call_tool(name="x")) == "usual"

    run(test())


def test_an_error_of_json_rpc_is_one_whatever_its_status() -> None:
    async def refuse(got: Got, write: Write) -> None:
        error = {"jsonrpc": "2.0", "id": got.body["id"], "error": {"code": -32602, "message": "no", "data": 7}}
        await write(reply(json.dumps(error).encode(), 400))

    async def test() -> None:
        with pytest.raises(ErrorResponse, match="no") as caught:
            await call(Raw({"tools/call": refuse}))
        assert (caught.value.code, caught.value.data, caught.value.status) == (-32602, 7, 400)

    run(test())


@pytest.mark.parametrize("silent", [b"", STREAM, STREAM + COMMENT])
def test_a_slow_answer_ends_at_the_deadline_of_the_call_and_the_server_is_told(silent: bytes) -> None:
    async def test() -> None:
        told, gone = asyncio.Event(), asyncio.Event()

        async def wait(got: Got, write: Write) -> None:
            try:
                await write(silent)
                while True:
                    await asyncio.wait_for(told.wait(), 20)
                    await write(COMMENT)
            finally:
                gone.set()

        async def cancelled(got: Got, write: Write) -> None:
            await write(reply(b"", 202))
            told.set()

        raw = Raw({"tools/call": wait, "notifications/cancelled": cancelled})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            with pytest.raises(TimedOut):
                await client.call_tool(name="x", options=SHORT)
            await told.wait()
            await gone.wait()
            [told_of] = raw.asked("notifications/cancelled")
            assert told_of.body["params"]["requestId"] == raw.asked("tools/call")[0].body["id"]

    run(test())


def test_a_stream_cut_anywhere_is_resumed_without_loss_or_doubling() -> None:
    """Each cut ends the connection within the bytes of a stream; the rest is asked for by the last id that arrived."""
    seeded = random.Random(7)

    async def test() -> None:
        progress = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 0, "progress": number}}
            for number in range(1, 9)
        ]
        stored: dict[str, list[bytes]] = {}

        def events(got: Got) -> list[bytes]:
            token = got.body["id"]
            for each in progress:
                each["params"]["progressToken"] = token  # type: ignore[index]
            bodies = [b"", *(json.dumps(each).encode() for each in progress), result(got, said(str(token)))]
            return [encode(body, id=f"{token}-{number}", retry=0) for number, body in enumerate(bodies)]

        async def start(got: Got, write: Write) -> None:
            made = stored[str(got.body["id"])] = events(got)
            await write(STREAM)
            await send(made, write)

        async def resume(got: Got, write: Write) -> None:
            if "last-event-id" not in got.headers:
                await write(reply(b"", 405))
                return
            token, _, number = got.headers["last-event-id"].partition("-")
            await write(STREAM)
            await send(stored[token][int(number) + 1 :], write)

        async def send(made: list[bytes], write: Write) -> None:
            whole = b"".join(made)
            # At least one event arrives, so that there is always something to resume after.
            await write(whole[: seeded.randrange(len(made[0]) if len(made) == 10 else 0, 2 * len(whole))])

        raw = Raw({"tools/call": start, "GET": resume})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:

            async def one(number: int) -> None:
                heard: list[float] = []
                options = Options(on_progress=lambda progress: heard.append(progress.progress))
                outcome = text(await client.call_tool(name="x", arguments={"n": number}, options=options))
                assert outcome in stored and heard == list(range(1, 9))

            await asyncio.gather(*(one(number) for number in range(100)))
        resumed = [got for got in raw.asked("GET") if "last-event-id" in got.headers]
        assert len(resumed) > 50 and all(got.headers["mcp-session-id"] == "s-1" for got in resumed)

    run(test())


def test_a_stream_that_cannot_be_resumed_fails_its_call_and_no_other() -> None:
    async def test() -> None:
        async def answer(got: Got, write: Write) -> None:
            await write(STREAM)
            if got.body["params"]["name"] == "cut":
                await write(encode(b"", id="e-1", retry=0))
            else:
                await asyncio.sleep(0)
                await write(event(got, said("fine")))

        raw = Raw({"tools/call": answer})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            calls = [client.call_tool(name="cut" if number == 4 else "fine") for number in range(10)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(outcomes[4], NotConnected) and "status 405" in str(outcomes[4])
            assert [text(each) for number, each in enumerate(outcomes) if number != 4] == ["fine"] * 9

    run(test())


def test_a_lost_session_is_opened_again_once_without_the_old_id_and_the_calls_go_through() -> None:
    async def test() -> None:
        raw = Raw()

        async def check(got: Got, write: Write) -> None:
            if got.headers["mcp-session-id"] != raw.session:
                await write(reply(b"", 404))
            else:
                await raw.usual(got, write)

        raw.answers["tools/call"] = check
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            assert text(await client.call_tool(name="x")) == "usual"
            raw.session = "s-2"
            answers = await asyncio.gather(*(client.call_tool(name="x") for _ in range(5)))
            assert [text(each) for each in answers] == ["usual"] * 5
        opened = raw.asked("initialize")
        assert len(opened) == 2 and not any("mcp-session-id" in got.headers for got in opened)
        assert [got.headers["mcp-session-id"] for got in raw.asked("notifications/initialized")] == ["s-1", "s-2"]
        assert [got.headers["mcp-session-id"] for got in raw.asked("DELETE")] == ["s-2"]

    run(test())


def test_a_session_that_never_lasts_fails_the_call() -> None:
    async def test() -> None:
        with pytest.raises(NotConnected, match="as soon as it was open"):
            await call(Raw({"tools/call": always(reply(b"", 404))}))

    run(test())


@pytest.mark.parametrize("id", ["a b", "\xe9", "x" * 5000], ids=["space", "latin", "long"])
def test_a_hostile_session_id_is_refused(id: str) -> None:
    async def test() -> None:
        raw = Raw(session=id)
        with pytest.raises(InvalidResponse, match="visible ASCII"):
            await call(raw)
        assert {got.rpc for got in raw.seen} == {"initialize"}

    run(test())


def test_what_the_server_says_by_itself_is_answered_and_its_stream_is_opened_again() -> None:
    class Asked(v2025_11_25.Client):
        async def on_list_roots(self, ctx: Any, params: Any) -> v2025_11_25.types.ListRootsResult:
            return v2025_11_25.types.ListRootsResult(roots=[])

    async def test() -> None:
        answered = asyncio.Event()

        async def speak(got: Got, write: Write) -> None:
            number = {"": 1, "e-1": 2}.get(got.headers.get("last-event-id", ""))
            if number is None:
                await answered.wait()
                return
            asked = {"jsonrpc": "2.0", "id": f"q{number}", "method": "roots/list"}
            await write(STREAM + encode(json.dumps(asked).encode(), id=f"e-{number}", retry=0))

        async def heard(got: Got, write: Write) -> None:
            await write(reply(b"", 202))
            if len(raw.asked("answer")) == 2:
                answered.set()

        raw = Raw({"GET": speak, "answer": heard})
        async with serving(raw), Asked.http(raw.url) as client:
            await answered.wait()
            assert text(await client.call_tool(name="x")) == "usual"
        assert [got.body["id"] for got in raw.asked("answer")] == ["q1", "q2"]
        assert all(got.headers["mcp-session-id"] == "s-1" for got in raw.asked("answer"))

    run(test())


@pytest.mark.parametrize("status", [401, 403, 500, 503, 429])
def test_who_may_not_ask_or_meets_a_broken_server_does_not_fall_back(status: int) -> None:
    async def test() -> None:
        raw = Raw({rpc: always(reply(b"", status)) for rpc in ("server/discover", "initialize", "GET")})
        async with serving(raw):
            clients = [v2025_11_25.Client.http(raw.url), v2026_07_28.Client.http(raw.url)]
            with pytest.raises(Rejected) as caught:
                await negotiate(*clients)
            assert caught.value.status == status
            with pytest.raises(Rejected):
                async with v2025_11_25.Client.http(raw.url):
                    pass
        assert [got.rpc for got in raw.seen] == ["server/discover", "initialize"]

    run(test())


def test_a_slow_server_is_not_an_older_one() -> None:
    async def wait(got: Got, write: Write) -> None:
        await asyncio.sleep(20)

    async def test() -> None:
        raw = Raw({"server/discover": wait})
        async with serving(raw):
            clients = [v2025_11_25.Client.http(raw.url), v2026_07_28.Client.http(raw.url, opening=SHORT)]
            with pytest.raises(TimedOut):
                await negotiate(*clients)
        assert len(raw.seen) == 1

    run(test())


def test_a_server_with_a_handshake_is_found_out() -> None:
    async def test() -> None:
        raw = Raw({"server/discover": always(reply(b"", 400))})
        async with serving(raw):
            client: Any = await negotiate(v2025_11_25.Client.http(raw.url), v2026_07_28.Client.http(raw.url))
            assert client.revision.id == NEWEST_WITH_SESSIONS
            assert text(await client.call_tool(name="x")) == "usual"
            await client.close()
            await client.close()
        [asked] = raw.asked("tools/call")
        assert asked.headers["mcp-protocol-version"] == NEWEST_WITH_SESSIONS and "mcp-method" not in asked.headers

    run(test())


def test_an_older_server_may_not_send_us_to_another_origin() -> None:
    async def test() -> None:
        raw = Raw({"initialize": always(reply(b"", 405))})
        raw.answers["GET"] = always(STREAM + encode(b"http://evil.invalid/messages", kind="endpoint"))
        with pytest.raises(Rejected, match="status 405"):
            await call(raw)

    run(test())


def test_no_secret_reaches_a_log_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        raw = Raw({"tools/call": always(reply(b"", 403))}, session="secret-session")
        with pytest.raises(Rejected) as caught:
            await call(raw, reach=Reach(headers={"Authorization": "Bearer secret-token"}))
        assert "secret" not in str(caught.value)
        assert raw.asked("tools/call")[0].headers["authorization"] == "Bearer secret-token"

    with caplog.at_level(logging.DEBUG, "mcp_runtime"):
        run(test())
    assert "secret" not in "".join(record.getMessage() for record in caplog.records if record.name == "mcp_runtime")


def test_a_stateless_call_is_cancelled_by_closing_its_stream_and_by_nothing_else() -> None:
    async def test() -> None:
        gone = asyncio.Event()

        async def discover(got: Got, write: Write) -> None:
            known = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
            more = {"serverInfo": {"name": "raw", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}
            await write(reply(result(got, {**known, **more})))

        async def wait(got: Got, write: Write) -> None:
            try:
                await write(STREAM)
                while True:
                    await write(COMMENT)
                    await asyncio.sleep(0.01)
            finally:
                gone.set()

        raw = Raw({"server/discover": discover, "tools/call": wait})
        async with serving(raw), v2026_07_28.Client.http(raw.url) as client:
            with pytest.raises(TimedOut):
                await client.call_tool(name="x", options=SHORT)
            await gone.wait()
        assert [got.rpc for got in raw.seen] == ["server/discover", "tools/call"]

    run(test())
