"""Both transports of lines over pipes, that of the event loop and that of threads, behave the same."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import pytest

from mcp_products.platforms.pipe_threads import ThreadedTransport
from mcp_runtime.errors import ConnectionClosedError, LocalError
from mcp_runtime.transports.stdio.lines import HIGH_WATER, LineTransport, uses_threads
from mcp_runtime.transports.stdio.pipes import PipeTransport

BOTH = pytest.mark.parametrize("kind", [PipeTransport, ThreadedTransport])
Kind = Callable[[int, int], LineTransport]
MIB = 1 << 20


class Pipes:
    """A transport, and the other ends of its pipes."""

    def __init__(self, kind: Kind) -> None:
        incoming, into = os.pipe()
        out, outgoing = os.pipe()
        self.into = into
        self.out = out
        self.transport = kind(incoming, outgoing)

    async def read(self, size: int) -> bytes:
        """Read so many bytes of what the transport sends."""
        data = b""
        while len(data) < size:
            chunk = await asyncio.to_thread(os.read, self.out, 1 << 16)
            assert chunk, "the transport has closed its output"
            data += chunk
        return data

    async def write(self, data: bytes) -> None:
        def write_all() -> None:
            view = memoryview(data)
            while view:
                view = view[os.write(self.into, view) :]

        await asyncio.to_thread(write_all)


@BOTH
async def test_lines_arrive_whole_and_in_order(kind: Kind) -> None:
    pipes = Pipes(kind)
    for part in (b"on", b"e\r\ntwo\n\nth", b"ree\n" + b"x" * 300_000 + b"\n"):
        await pipes.write(part)
    lines = [await pipes.transport.receive() for _ in range(4)]
    assert lines == [b"one", b"two", b"three", b"x" * 300_000]
    os.close(pipes.into)
    assert await pipes.transport.receive() is None
    await pipes.transport.close()
    os.close(pipes.out)


@BOTH
async def test_messages_leave_whole_and_in_order_and_before_the_end(kind: Kind) -> None:
    pipes = Pipes(kind)
    messages = [b"%d" % number + b"x" * (number * 7) for number in range(1000)]
    for message in messages:
        pipes.transport.send(message, more=True)
    expected = b"\n".join(messages) + b"\n"
    reading = asyncio.create_task(pipes.read(len(expected)))
    await pipes.transport.close(timeout=20)
    assert await reading == expected
    assert await asyncio.to_thread(os.read, pipes.out, 1) == b""
    os.close(pipes.into)


@BOTH
async def test_drain_waits_for_a_slow_reader(kind: Kind) -> None:
    pipes = Pipes(kind)
    await pipes.transport.drain()
    pipes.transport.send(b"x" * (2 * HIGH_WATER))
    draining = asyncio.create_task(pipes.transport.drain())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not draining.done()
    await pipes.read(2 * HIGH_WATER + 1)
    await draining
    await pipes.transport.close()
    os.close(pipes.into)
    os.close(pipes.out)


@BOTH
async def test_while_paused_nothing_is_delivered_and_little_is_read(kind: Kind) -> None:
    pipes = Pipes(kind)
    delivered: list[bytes | None] = []
    pipes.transport.set_receiver(delivered.append)
    pipes.transport.pause()  # type: ignore[attr-defined, unused-ignore]
    line = b"y" * 1023 + b"\n"
    writing = asyncio.create_task(pipes.write(line * 4 * 1024))
    os.set_blocking(pipes.into, True)
    done, _ = await asyncio.wait([writing], timeout=0.3)
    assert not done and delivered == []
    pipes.transport.resume()
    await writing
    os.close(pipes.into)
    while not delivered or delivered[-1] is not None:
        await asyncio.sleep(0.001)
    assert delivered == [line[:-1]] * 4096 + [None]
    await pipes.transport.close()
    os.close(pipes.out)


@BOTH
async def test_a_reader_that_is_gone_ends_the_connection(kind: Kind) -> None:
    pipes = Pipes(kind)
    os.close(pipes.out)
    pipes.transport.send(b"x")
    assert await pipes.transport.receive() is None
    with pytest.raises(ConnectionClosedError):
        pipes.transport.send(b"y")
    with pytest.raises(ConnectionClosedError):
        await pipes.transport.drain()
    await pipes.transport.close()
    os.close(pipes.into)


@BOTH
async def test_closing_while_nobody_reads_ends_in_time(kind: Kind) -> None:
    before = set(threading.enumerate())
    pipes = Pipes(kind)
    pipes.transport.send(b"x" * (4 * MIB))
    await asyncio.wait_for(pipes.transport.close(timeout=0.05), 10)
    with pytest.raises(ConnectionClosedError):
        pipes.transport.send(b"y")
    os.close(pipes.out)  # A thread that still writes ends now, and closes its descriptor.
    os.close(pipes.into)
    await until_threads_end(before)


@BOTH
async def test_the_end_of_the_input_is_noticed_while_the_output_is_full(kind: Kind) -> None:
    pipes = Pipes(kind)
    delivered: list[bytes | None] = []
    pipes.transport.set_receiver(delivered.append)
    pipes.transport.send(b"x" * (4 * MIB))
    await pipes.write(b"last\n")
    os.close(pipes.into)
    if kind is PipeTransport:
        pipes.transport.remote_closed()  # A server has a thread that notices it: see wait_for_close.
    while delivered != [b"last", None]:
        await asyncio.sleep(0.001)
    os.close(pipes.out)
    await pipes.transport.close()


async def test_a_shared_pipe_that_somebody_made_non_blocking_is_waited_for() -> None:
    pipes = Pipes(ThreadedTransport)
    for descriptor in (pipes.transport._incoming, pipes.transport._outgoing):
        os.set_blocking(descriptor, False)
    pipes.transport.send(b"x" * MIB)
    await pipes.read(MIB + 1)
    await pipes.write(b"one\n")
    assert await pipes.transport.receive() == b"one"
    os.close(pipes.into)
    assert await pipes.transport.receive() is None
    await pipes.transport.close()
    os.close(pipes.out)


async def test_an_event_loop_that_has_ended_ends_the_threads() -> None:
    def serve() -> None:
        async def scene() -> None:
            ThreadedTransport(incoming, outgoing)

        asyncio.run(scene())

    (incoming, into), (out, outgoing) = os.pipe(), os.pipe()
    await asyncio.to_thread(serve)
    os.write(into, b"late\n")
    os.close(into)
    os.close(out)
    while any(thread.name == "mcp reader" for thread in threading.enumerate()):
        await asyncio.sleep(0.001)
    with pytest.raises(OSError):
        os.fstat(incoming)


@pytest.mark.parametrize(("platform", "mode", "threaded"), [("linux", "", False), ("linux", "threads", True),
                                                            ("win32", "", True), ("darwin", "", False)])  # fmt: skip
def test_threads_are_for_windows_or_by_force(
    platform: str, mode: str, threaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("MCP_STDIO", mode)
    assert uses_threads() is threaded


def test_a_terminal_is_read_by_a_thread_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, other = os.openpty()
    monkeypatch.delenv("MCP_STDIO", raising=False)
    assert uses_threads(other) is False
    monkeypatch.setattr("sys.platform", "darwin")
    assert uses_threads(other) is True
    os.close(terminal)
    os.close(other)


def test_another_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_STDIO", "thread")
    with pytest.raises(LocalError, match="MCP_STDIO must be threads, or removed; 'thread' is not"):
        uses_threads()


async def until_threads_end(before: set[threading.Thread]) -> None:
    """Wait for the threads of transports that began since then."""
    while any(thread.name in ("mcp reader", "mcp writer") for thread in {*threading.enumerate()} - before):
        await asyncio.sleep(0.001)
