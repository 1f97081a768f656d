"""A thread that reads the calls of plain functions by itself changes nothing but their time."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.project import TESTS
from support.raw_process import RawServer

from mcp_products import fast as fast_paths

COMMAND = [sys.executable, str(TESTS / "support/threads/functions_server.py")]
SOON = [*COMMAND, "soon"]
# With the transport of threads, the thread that reads runs no functions.
READS = sys.platform == "linux" and fast_paths.ENABLED and os.environ.get("MCP_STDIO") != "threads"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="`select` on pipes, and signals")


class Conversation:
    """Calls of one client, one after the other unless a test says otherwise."""

    def __init__(self, server: RawServer) -> None:
        self.server = server
        self.number = 0
        self.notifications: list[dict[str, Any]] = []

    def begin(self, tool: str, **arguments: Any) -> int:
        self.number += 1
        self.server.call(self.number, tool, **arguments)
        return self.number

    def message(self, id: int) -> dict[str, Any]:
        """Return the response with this id; no other one comes before it."""
        while "method" in (message := self.server.answer()):
            self.notifications.append(message)
        assert message["id"] == id
        return message

    def call(self, tool: str, **arguments: Any) -> Any:
        return value_of(self.message(self.begin(tool, **arguments)))

    def warm_up(self) -> None:
        """Make calls until a thread reads them: on a busy machine the event loop waits for no function for a while."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            self.call("echo")
            self.call("echo")
            if self.call("reads") is READS:
                return
        raise AssertionError("no thread reads")


def value_of(message: dict[str, Any]) -> Any:
    """Return the value of a result, that of an error, or the whole message."""
    content = message.get("result", {}).get("content")
    if not content:
        return message
    text: str = content[0]["text"]
    return {"true": True, "false": False}.get(text, text)


@pytest.fixture(params=[ALL_REVISIONS[1], ALL_REVISIONS[-1]], ids=str)
def talk(request: pytest.FixtureRequest) -> Iterator[Conversation]:
    with RawServer(rev=request.param, command=SOON) as server:
        talk = Conversation(server)
        talk.warm_up()
        yield talk


def test_a_thread_reads_short_calls_and_only_them(talk: Conversation) -> None:
    assert [talk.call("echo", text=str(number)) for number in range(50)] == [str(number) for number in range(50)]
    talk.warm_up()
    time.sleep(0.1)
    assert talk.call("reads") is False, "the event loop reads again when nothing comes"
    talk.warm_up()


def test_it_begins_after_some_calls_in_a_row() -> None:
    with RawServer(command=COMMAND) as server:
        talk = Conversation(server)
        assert not any(talk.call("reads") for _ in range(5))
        for _ in range(1000):
            if any(talk.call("reads") for _ in range(30)) is READS:
                break
        else:
            raise AssertionError("no thread reads")


@pytest.mark.long
def test_a_slow_function_delays_nobody(talk: Conversation) -> None:
    for tool in ("sleep", "work"):
        talk.warm_up()
        slow = talk.begin(tool, seconds=0.5)
        assert talk.call("echo", text="meanwhile") == "meanwhile"  # No other response comes before.
        assert talk.call("waits", seconds=0.01) == "waited"
        assert value_of(talk.message(slow)) == {"sleep": "awake", "work": "done"}[tool]


@pytest.mark.long
def test_slow_functions_run_at_the_same_time(talk: Conversation) -> None:
    began = time.monotonic()
    slow = {talk.begin("sleep", seconds=0.3) for _ in range(10)}
    assert {talk.server.answer()["id"] for _ in slow} == slow
    assert time.monotonic() - began < 1.5
    talk.warm_up()


@pytest.mark.long
def test_a_call_is_cancelled(talk: Conversation) -> None:
    slow = talk.begin("sleep", seconds=0.2)
    talk.server.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}})
    time.sleep(0.4)
    assert talk.call("echo", text="next") == "next"
    talk.warm_up()


@pytest.mark.long
def test_what_a_function_raises_and_returns_is_the_same(talk: Conversation) -> None:
    for kind in ("value", "stop", "cancelled"):
        answers = []
        for wait in (0.0, 0.05):  # By the thread that reads, and by the event loop.
            talk.warm_up()
            time.sleep(wait)
            answers.append({**talk.message(talk.begin("fails", kind=kind)), "id": 0})
        assert answers[0] == answers[1]
    talk.warm_up()
    assert talk.call("echo", text=5)[:20] == talk.call("echo", text=6)[:20]  # Wrong arguments.


@pytest.mark.long
def test_code_of_the_event_loop_runs_in_its_thread(talk: Conversation) -> None:
    assert talk.call("is_main_thread") is False
    talk.warm_up()
    assert talk.call("later") is True
    talk.warm_up()
    assert talk.call("own_loop") == "of another event loop"


@pytest.mark.long
def test_each_call_has_a_context_of_its_own(talk: Conversation) -> None:
    assert {talk.call("context") for _ in range(30)} == {"set before the server runs"}


@pytest.mark.long
def test_notifications_come_before_the_result(talk: Conversation) -> None:
    for number in range(5):
        talk.warm_up()
        talk.notifications.clear()
        request = talk.server.rev.request(number + 1000, "tools/call", {"name": "progress", "arguments": {"steps": 20}})
        request["params"].setdefault("_meta", {})["progressToken"] = number
        began = time.monotonic()
        talk.server.say(request)
        assert value_of(talk.message(number + 1000)) == "all of it"
        assert time.monotonic() - began < 5
        steps = [note["params"]["progress"] for note in talk.notifications if "progress" in note["method"]]
        assert steps == list(range(1, 21))


@pytest.mark.long
def test_the_list_changes_before_the_result(talk: Conversation) -> None:
    if talk.server.rev.stateless:
        pytest.skip("changes are on a stream of their own")
    for number in range(3):
        talk.warm_up()
        talk.notifications.clear()
        assert talk.call("grow", number=number) == "more"
        assert talk.call("echo", text="more") == "more"
        assert [note["method"] for note in talk.notifications] == ["notifications/tools/list_changed"]


@pytest.mark.long
def test_timers_go_on(talk: Conversation) -> None:
    first, began = talk.call("count"), time.monotonic()
    while time.monotonic() - began < 0.5:
        talk.call("echo")
    assert int(talk.call("count")) - int(first) > 20, "of 100"


@pytest.mark.long
def test_messages_of_other_kinds_are_answered(talk: Conversation) -> None:
    talk.server.probe("probe")
    assert talk.server.answer()["id"] == "probe"
    talk.warm_up()
    talk.server.say(talk.server.rev.request("list", "tools/list"))
    assert len(talk.server.answer()["result"]["tools"]) > 10
    talk.warm_up()
    talk.server.write(b"not JSON\n")
    assert talk.server.answer()["error"]["code"] == -32700
    talk.warm_up()
    line = talk.server.rev.request("parts", "tools/call", {"name": "echo", "arguments": {"text": "in parts"}})
    data = json.dumps(line).encode() + b"\n"
    for start in range(0, len(data), 20):
        talk.server.write(data[start : start + 20])
        time.sleep(0.001)
    assert value_of(talk.server.answer()) == "in parts"


@pytest.mark.long
def test_many_at_once_are_answered(talk: Conversation) -> None:
    for _ in range(3):
        ids = {talk.begin("echo", text="x") for _ in range(200)}
        assert {talk.server.answer()["id"] for _ in ids} == ids
        talk.warm_up()


@pytest.mark.long
def test_a_client_that_does_not_read_delays_only_itself(talk: Conversation) -> None:
    ids = [talk.begin("long", size=300_000) for _ in range(10)]
    time.sleep(0.3)
    assert sorted(talk.server.answer()["id"] for _ in ids) == ids
    talk.warm_up()


@pytest.mark.long
@pytest.mark.parametrize("end", ["input", "SIGTERM", "SIGINT", "exit"])
@pytest.mark.parametrize("rest", [0.0, 0.0003, 0.05], ids=["at once", "soon", "later"])
def test_the_server_ends(end: str, rest: float) -> None:
    with RawServer(command=SOON) as server:
        talk = Conversation(server)
        talk.warm_up()
        time.sleep(rest)
        match end:
            case "input":
                server.close_input()
            case "exit":
                talk.begin("leaves")
            case _:
                server.signal(getattr(signal, end))
        assert server.ends_within(3.0) == {"input": 0, "exit": 7}.get(end, -getattr(signal, end, 0))


@pytest.mark.long
@pytest.mark.parametrize("end", ["input", "SIGTERM"])
def test_the_server_ends_while_a_function_runs(end: str) -> None:
    with RawServer(command=SOON) as server:
        talk = Conversation(server)
        talk.warm_up()
        talk.begin("sleep", seconds=60)
        time.sleep(0.1)
        server.close_input() if end == "input" else server.signal(signal.SIGTERM)
        assert server.ends_within(4.0) in (0, -signal.SIGTERM)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@among(ALL_REVISIONS[3:])
def test_any_calls_have_their_results(rev: Rev, seed: int) -> None:
    """Up to three calls are in flight, at random moments; each has its result, once."""
    choose = random.Random(f"{seed} {rev}")
    with RawServer(rev=rev, command=SOON) as server:
        talk, expected, answers = Conversation(server), dict[int, Any](), dict[int, Any]()
        room = threading.Semaphore(3)

        def read() -> None:
            while len(answers) < 600:
                message = server.answer()
                if "id" in message:
                    answers[message["id"]] = value_of(message)
                    room.release()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        for _ in range(600):
            assert room.acquire(timeout=20), "a response is missing"
            tool, arguments, result = choose.choice(
                [("echo", {"text": str(choose.random())}, None)] * 20
                + [("sleep", {"seconds": choose.choice([0.0005, 0.001, 0.002, 0.003, 0.01])}, "awake")] * 3
                + [("work", {"seconds": choose.choice([0.001, 0.002, 0.003])}, "done")]
                + [("waits", {"seconds": 0.001}, "waited"), ("progress", {"steps": 2}, "all of it")]
            )
            expected[talk.begin(tool, **arguments)] = arguments["text"] if result is None else result
            if choose.random() < 0.05:
                time.sleep(choose.choice([0.001, 0.002, 0.003, 0.01]))
        reader.join(30)
        assert answers == expected
