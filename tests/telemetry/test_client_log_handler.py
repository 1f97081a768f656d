"""A program's log records go to the client of the request: with levels, without secrets, and never blocking."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from support.endpoints import Rev
from support.http.observed_clients import CELLS, observed_client, text_of, wants_logs

from mcp_generated import App, ClientLogHandler, LocalError
from mcp_generated.v2025_11_25 import Client
from mcp_products.telemetry.client_logs import REDACTED, redact

LEVELS = ("debug", "info", "warning", "error", "critical")
FUNCTIONS = pytest.mark.parametrize("tool", ["program_log", "program_log_in_thread"])


class Recorder:
    """Records log messages, and waits for one with a text."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any, str | None]] = []
        self._changed = asyncio.Event()

    async def on_logging_message(self, ctx: Any, params: Any) -> None:
        self.messages.append((params.level, params.data, params.logger))
        self._changed.set()

    async def until(self, text: str) -> None:
        while not any(data == text for _, data, _ in self.messages):
            self._changed.clear()
            await self._changed.wait()

    @property
    def handlers(self) -> dict[str, Any]:
        return {"on_logging_message": self.on_logging_message}


@CELLS
@FUNCTIONS
async def test_records_from_info_on_are_sent_in_order_and_before_the_result(
    transport: str, rev: Rev, tool: str
) -> None:
    recorder = Recorder()
    texts = [f"text {number}" for number in range(20)]
    async with observed_client(transport, rev, recorder.handlers) as client:
        assert text_of(await client.call_tool(tool, {"texts": texts}, **wants_logs(rev))) == "logged"
        await recorder.until("text 19")
    assert recorder.messages == [
        (LEVELS[number % 5], f"text {number}", "shop") for number in range(20) if number % 5 > 0
    ]


@CELLS
async def test_the_client_sets_the_lowest_level(transport: str, rev: Rev) -> None:
    recorder = Recorder()
    texts = [f"text {number}" for number in range(5)]
    async with observed_client(transport, rev, recorder.handlers) as client:
        if not rev.stateless:
            await client.set_level("error")
        await client.call_tool("program_log", {"texts": texts}, **wants_logs(rev, "error"))
        await recorder.until("text 4")
        await client.call_tool("program_log_in_thread", {"texts": texts}, **wants_logs(rev, "critical"))
        await client.call_tool("fails", **wants_logs(rev))
        await client.call_tool("program_log", {"texts": ["", "", "", "", "last"]}, **wants_logs(rev, "critical"))
        await recorder.until("last")
    own = [data for _, data, _ in recorder.messages]
    assert own == (["text 3", "text 4", "text 4", "last"] if rev.stateless else
                   ["text 3", "text 4", "text 3", "text 4", "", "last"])  # fmt: skip
    assert "hunter2" not in str(recorder.messages)


@CELLS
async def test_a_stateless_request_without_a_level_gets_no_records(transport: str, rev: Rev) -> None:
    recorder = Recorder()
    async with observed_client(transport, rev, recorder.handlers) as client:
        await client.call_tool("program_log", {"texts": ["a", "silent"]})
        await client.call_tool("program_log", {"texts": ["a", "last"]}, **wants_logs(rev))
        await recorder.until("last")
    sent = [data for _, data, _ in recorder.messages]
    assert sent == (["last"] if rev.stateless else ["silent", "last"])


async def test_records_of_two_clients_go_to_their_own_ones() -> None:
    app, log = App("two"), logging.getLogger("test.two")
    log.setLevel(logging.INFO)
    log.addHandler(handler := ClientLogHandler())

    @app.tool
    async def work(name: str) -> str:
        for _ in range(5):
            log.info(name)
            await asyncio.sleep(0)
        await asyncio.to_thread(log.info, f"{name} in a thread")
        return name

    one, two = Recorder(), Recorder()
    first, second = (
        type("C", (Client,), {"on_logging_message": staticmethod(r.on_logging_message)}) for r in (one, two)
    )
    try:
        async with first.memory(app) as a, second.memory(app) as b:
            await asyncio.gather(a.call_tool("work", {"name": "a"}), b.call_tool("work", {"name": "b"}))
            log.info("outside of a request")
            await one.until("a in a thread")
            await two.until("b in a thread")
    finally:
        log.removeHandler(handler)
    assert [data for _, data, _ in one.messages] == ["a"] * 5 + ["a in a thread"]
    assert [data for _, data, _ in two.messages] == ["b"] * 5 + ["b in a thread"]


async def test_a_handler_at_the_root_never_sends_what_sending_logs() -> None:
    """The client of the same process logs each message that it gets, and DEBUG logs all of this package."""
    app, root = App("recursive"), logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    logging.getLogger("mcp_runtime").setLevel(logging.DEBUG)
    root.addHandler(handler := ClientLogHandler("DEBUG"))
    messages: list[Any] = []

    class Echoing(Client):
        async def on_logging_message(self, ctx: Any, params: Any) -> None:
            messages.append(params.data)
            logging.getLogger("client").warning("received %s", params.data)

    @app.tool
    async def work() -> str:
        logging.getLogger("program").info("once")
        await asyncio.sleep(0)
        raise ValueError("the details are for the server")

    try:
        async with Echoing.memory(app) as client:
            result = await client.call_tool("work")
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        logging.getLogger("mcp_runtime").setLevel(logging.NOTSET)
    assert result.is_error
    assert [text for text in messages if text != "Using selector: EpollSelector"] == ["once"]


async def test_a_client_that_does_not_read_never_blocks_a_logger_and_learns_how_much_it_lost() -> None:
    app, log = App("slow"), logging.getLogger("test.slow")
    log.setLevel(logging.INFO)
    log.addHandler(handler := ClientLogHandler(max_queued=10))
    finished = threading.Event()

    @app.tool
    def flood() -> str:
        began.set()
        loop_is_blocked.wait(10)
        for number in range(1000):
            log.info("number %d", number)
        finished.set()
        loop_goes_on.wait(10)
        return "done"

    began, loop_is_blocked, loop_goes_on = threading.Event(), threading.Event(), threading.Event()
    recorder = Recorder()
    kind: Any = type("C", (Client,), {"on_logging_message": staticmethod(recorder.on_logging_message)})
    try:
        async with kind.memory(app) as client:
            call = asyncio.create_task(client.call_tool("flood"))
            while not began.is_set():
                await asyncio.sleep(0)
            loop_is_blocked.set()
            assert finished.wait(10), "the logger waited for the event loop"  # This blocks the event loop.
            loop_goes_on.set()
            await call
            await client.ping()
    finally:
        log.removeHandler(handler)
    texts = [data for _, data, _ in recorder.messages]
    [report] = [text for text in texts if "dropped" in text]
    assert report == "990 log messages were dropped"
    assert [text for text in texts if text != report] == [f"number {number}" for number in range(10)]


async def test_a_message_that_has_to_wait_is_finished_and_those_meanwhile_are_counted() -> None:
    room, sent = asyncio.get_running_loop().create_future(), list[str]()

    class SlowContext:
        async def log(self, level: str, text: str, logger: str) -> None:
            await room
            sent.append(text)

    handler = ClientLogHandler()
    request: Any = SimpleNamespace(loop=asyncio.get_running_loop(), unfinished=None, dropped=0)
    request.context = lambda: SlowContext()
    handler._start(request, SlowContext().log("info", "text 0", "x"))
    task = request.unfinished
    assert task is not None
    for _ in range(3):
        handler._send(request, "info", "meanwhile", "x")
    assert request.dropped == 3 and sent == []
    room.set_result(None)
    await task
    assert sent == ["text 0"] and request.unfinished is None


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def-123", "abc.def-123"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz'}", "dXNlcjpwYXNz"),
        ('"authorization": "Digest username=x, response=feed"', "feed"),
        ("sent bearer 0123456789abcdef to it", "0123456789abcdef"),
        ("GET https://user:hunter2@example.com/x", "hunter2"),
        ("redis://:hunter2@localhost:6379/0", "hunter2"),
        ("postgresql+psycopg://app:p%40ss@db/x", "p%40ss"),
        ("https://example.com/?api_key=abc123&city=Oslo", "abc123"),
        ("https://example.com/cb?code=1&access_token=abc123#x", "abc123"),
        ("X-API-Key: abc123", "abc123"),
        ('{"password": "hunter 2", "user": "x"}', "hunter 2"),
        ("password='hunter 2'", "hunter 2"),
        ("DB_PASSWORD=hunter2", "hunter2"),
        ("client_secret = abc123", "abc123"),
        ("refresh_token: abc123", "abc123"),
        ("run --api-key abc123 now", "abc123"),
        ("Cookie: session=abc123; other=def", "abc123"),
        ("key is " + "sk" + "-live-abcdefghijklmnop", "abcdefghijklmnop"),
        ("ghp_abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnop"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
        ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----", "MIIE"),
    ],
)
def test_secrets_are_redacted(text: str, secret: str) -> None:
    shown = redact(f"before {text} \nafter")
    assert secret not in shown
    assert REDACTED in shown and shown.startswith("before ") and shown.endswith("after")


@pytest.mark.parametrize(
    "text",
    [
        "the tokenizer has 5 tokens left",
        "https://example.com/users?page=2&sort=name",
        "the user forgot the password",
        "key 5 of 7, monkey: banana",
        "see the basic rules",
        "a@b.example wrote: hello",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", ["a" * 10_000_000, "token" * 100_000, "://" * 100_000, "eyJaaaaaaaa." * 50_000,
                                  "x_" * 100_000 + "token", "-----BEGIN PRIVATE KEY-----" * 10_000])  # fmt: skip
def test_a_long_text_is_cut_off_before_it_is_searched(text: str) -> None:
    assert len(redact(text)) <= 64 * 1024


def test_a_wrong_level_is_refused() -> None:
    with pytest.raises(LocalError, match=r'level must be a level of logging, such as logging.INFO or "INFO"'):
        ClientLogHandler("loud")
    wrong: Any = ClientLogHandler
    with pytest.raises(TypeError, match="no keyword argument 'levle'; did you mean 'level'"):
        wrong(levle=10)
