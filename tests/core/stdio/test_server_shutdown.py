"""A server process ends within two seconds, whatever its handlers and whoever reads its output do."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest
from support.raw_process import RawServer

SOON = 2.0
SHUTDOWNS: dict[str, Callable[[RawServer], None]] = {
    "end of input": RawServer.close_input,
    "SIGTERM": lambda server: server.signal(signal.SIGTERM),
    "SIGINT": lambda server: server.signal(signal.SIGINT),
}
STATES = ["idle", "in flight", "deaf handler", "executor", "thread", "blocked output", "blocked standard error"]


def bring(server: RawServer, state: str) -> None:
    """Bring the server into a state, and know that it is in it."""
    match state:
        case "in flight":
            server.call(1, "hang")
        case "deaf handler":
            server.call(1, "deaf")
        case "executor":
            server.call(1, "executor")
        case "thread":
            server.call(1, "thread")
            assert server.answer()["id"] == 1
        case "blocked output":
            for number in range(8):
                server.call(number, "large", size=1 << 18)
            server.answer()
        case "blocked standard error":
            server.call(1, "flood")
    if state not in ("blocked output", "blocked standard error"):
        server.say({"jsonrpc": "2.0", "id": "probe", "method": "ping"})
        assert server.answer()["id"] == "probe"


@pytest.mark.long
@pytest.mark.parametrize("shutdown", SHUTDOWNS)
@pytest.mark.parametrize("state", STATES)
def test_the_process_ends_soon(state: str, shutdown: str) -> None:
    with RawServer() as server:
        bring(server, state)
        SHUTDOWNS[shutdown](server)
        code = server.ends_within(SOON)
        # A handler that is stuck in a write cannot be left in any other way than by giving up.
        at_end = 1 if state == "blocked standard error" else 0
        assert code == at_end if shutdown == "end of input" else code in (-signal.SIGTERM, -signal.SIGINT, 143, 130)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_handler_that_blocks_the_loop_does_not_keep_the_process_alive(number: signal.Signals) -> None:
    with RawServer(stderr=subprocess.DEVNULL) as server:
        server.call(1, "block")
        server.signal(number)
        assert server.ends_within(SOON) in (-number, 128 + number)


def test_requests_in_a_pipe_that_ends_are_still_answered() -> None:
    with RawServer() as server:
        server.call(1, "large", size=10)
        server.close_input()
        assert server.answer()["id"] == 1
        assert server.ends_within(SOON) == 0
