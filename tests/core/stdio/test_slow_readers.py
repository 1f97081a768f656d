"""Readers that are slow, or stopped, or gone, and floods of requests: a server process of each revision bears them."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.raw_process import RawServer

MIB = 1 << 20
FLOOD = 20_000


@pytest.mark.long
@among(ALL_REVISIONS)
@pytest.mark.fault("1.5/07")
def test_a_slow_reader_loses_nothing_and_what_it_does_not_read_is_not_piled_up(rev: Rev) -> None:
    with RawServer(rev=rev) as server:
        server.call("first", "large", size=1 << 18)
        assert server.answer()["id"] == "first"
        before = server.peak_memory
        answered(server, 200, "large", size=1 << 18)  # 50 MiB.
        assert server.peak_memory - before < 32 * MIB
        answered(server, 600, "large", size=16 << 10)


@pytest.mark.long
@among(ALL_REVISIONS)
@pytest.mark.fault("1.5/12")
def test_twenty_thousand_requests_at_once_are_each_answered_once(rev: Rev) -> None:
    with RawServer(rev=rev) as server:
        server.call("first", "echo")
        assert server.answer()["id"] == "first"
        before = server.peak_memory
        answered(server, FLOOD, "echo")
        assert server.peak_memory - before < 16 * MIB


@pytest.mark.long
@among(ALL_REVISIONS)
@pytest.mark.fault("1.5/07")
def test_a_reader_that_is_stopped_is_waited_for_without_work_and_its_death_is_the_end(rev: Rev) -> None:
    many = 64
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        with RawServer(rev=rev, reader=reader) as server:
            server.probe("awake")
            assert server.answer()["id"] == "awake"
            reader.send_signal(signal.SIGSTOP)
            for number in range(many):
                server.call(number, "large", size=1 << 16)
            until_idle(server)
            spent = server.cpu_seconds
            with pytest.raises(subprocess.TimeoutExpired):
                server.ends_within(0.5)
            assert server.cpu_seconds - spent <= 0.05
            reader.send_signal(signal.SIGCONT)
            assert sorted(server.answer()["id"] for _ in range(many)) == list(range(many))
            reader.send_signal(signal.SIGSTOP)
            for number in range(many):
                server.call(number, "large", size=1 << 16)
            until_idle(server)
            reader.kill()
            server.close_input()
            assert server.ends_within(5.0) == 0


def answered(server: RawServer, many: int, tool: str, **arguments: Any) -> None:
    """Ask so many times at once, and see that each is answered once."""
    line = json.dumps(server.rev.request("ID", "tools/call", {"name": tool, "arguments": arguments})) + "\n"
    data = "".join(line.replace('"ID"', str(number)) for number in range(many)).encode()
    writing = threading.Thread(target=server.write, args=(data,))  # The server reads no further than it is read.
    writing.start()
    assert sorted(server.answer()["id"] for _ in range(many)) == list(range(many))
    writing.join()


def until_idle(server: RawServer) -> None:
    """Wait until the server spends no more time."""
    spent = -1.0
    while (now := server.cpu_seconds) > spent or not server.is_asleep:
        spent = now
        with pytest.raises(subprocess.TimeoutExpired):
            server.ends_within(0.2)
