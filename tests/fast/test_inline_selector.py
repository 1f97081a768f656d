"""A selector that calls back by itself is one for an event loop like any other."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable

import pytest

from mcp_products.fast.stdio import InlineSelector


def play(scene: Callable[[InlineSelector], Awaitable[None]]) -> None:
    """Run a scene in an event loop with such a selector."""
    readers = InlineSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(readers)) as runner:
        runner.run(asyncio.wait_for(scene(readers), 20))


def test_what_is_read_is_taken_before_the_loop_goes_on() -> None:
    async def scene(readers: InlineSelector) -> None:
        (incoming, outgoing), chunks = os.pipe(), []
        end = asyncio.get_running_loop().create_future()

        def take() -> None:
            chunks.append(os.read(incoming, 100))
            if chunks[-1] == b"end":
                readers.remove_reader(incoming)
                end.set_result(None)

        readers.add_reader(incoming, take)
        for text in (b"one", b"two"):
            os.write(outgoing, text)
            await asyncio.sleep(0)  # One turn of the loop, in which it looks at what is ready once.
            assert chunks[-1] == text
        os.write(outgoing, b"end")
        await end
        os.write(outgoing, b"nobody takes this")
        await asyncio.sleep(0)
        assert chunks == [b"one", b"two", b"end"]
        os.close(incoming)
        os.close(outgoing)

    play(scene)


def test_timers_sockets_threads_and_children_work_beside_it() -> None:
    async def scene(readers: InlineSelector) -> None:
        incoming, outgoing = os.pipe()
        lines: list[bytes] = []
        readers.add_reader(incoming, lambda: lines.append(os.read(incoming, 100)))

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for number in range(50):  # One soon after the other: the selector looks for the next without sleeping.
            os.write(outgoing, b"%d" % number)
            await asyncio.sleep(0)
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        assert await asyncio.to_thread(lambda: "from a thread") == "from a thread"
        child = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
        assert (await child.communicate())[0] == b"hello\n"
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() - began >= 0.049
        assert lines == [b"%d" % number for number in range(50)]
        writer.close()
        server.close()
        readers.remove_reader(incoming)
        os.close(incoming)
        os.close(outgoing)

    play(scene)


def test_who_waits_long_sleeps() -> None:
    async def scene(readers: InlineSelector) -> None:
        incoming, outgoing = os.pipe()
        readers.add_reader(incoming, lambda: os.read(incoming, 100) and None)
        for _ in range(50):
            os.write(outgoing, b"x")
            await asyncio.sleep(0.001)
        used = time.process_time()
        await asyncio.sleep(1)
        assert time.process_time() - used < 0.2
        readers.remove_reader(incoming)
        os.close(incoming)
        os.close(outgoing)

    play(scene)


def test_a_callback_that_fails_is_logged_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(readers: InlineSelector) -> None:
        incoming, outgoing = os.pipe()

        def fail() -> None:
            os.read(incoming, 100)
            raise LookupError("lost")

        readers.add_reader(incoming, fail)
        os.write(outgoing, b"x")
        await asyncio.sleep(0)
        readers.remove_reader(incoming)
        os.close(incoming)
        os.close(outgoing)

    with caplog.at_level(logging.ERROR, "mcp_runtime"):
        play(scene)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["lost"]
