"""Nobody reads the standard error of a server, or of a client that passes it on: no call has to wait for that."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, hello
from support.processes import exit_code_within
from support.systems import PATIENCE

SERVER = """
import logging, os, sys
from mcp_generated import App

logging.basicConfig(level=logging.INFO)
app = App("noisy")
line = "x" * 1000

@app.tool
def noise(writer: str, lines: int) -> str:
    for number in range(lines):
        match writer:
            case "print":
                print(number, line)
            case "stderr":
                sys.stderr.write(f"{number} {line}\\n")
            case "logging":
                logging.warning("%d %s", number, line)
            case "fork":
                print(number, line)
                if number % 200 == 0:
                    if not (child := os.fork()):
                        print(number, "child")
                        os._exit(0)
                    os.waitpid(child, 0)
            case "one write":
                sys.stderr.write(line * lines)
                break
            case "bytes":
                sys.stderr.buffer.write(line.encode())
    return "done"

app.run()
"""
CLIENT = f"""
import asyncio, os, sys
from mcp_generated import connect

async def main():
    async with connect([sys.executable, "-c", {SERVER!r}], timeout={60 * PATIENCE}) as client:
        result = await client.call_tool(name="noise", arguments={{"writer": "print", "lines": 5000}})
        print(result.content[0].text, flush=True)

try:
    asyncio.run(main())
except Exception as error:  # Python would print it where nobody reads, and wait.
    print(repr(error), flush=True)
    os._exit(1)
"""
# A process whose standard error nobody reads but itself, when nobody can take any more.
ROUNDS = """
import json, os, sys, threading, time
from mcp_products.platforms.error_output import write_line

reading, writing = os.pipe()
os.dup2(writing, 2)
os.close(writing)
questions = []
fstat = os.fstat
os.fstat = lambda descriptor: questions.append(descriptor) or fstat(descriptor)
threads = set()
with open(reading, "rb") as reader:
    for round in range(3):
        for number in range(400):
            write_line(f"{round} {number} " + "x" * 1000)
        threads |= {thread.ident for thread in threading.enumerate() if thread.name == "mcp standard error"}
        os.dup2(2, 1)  # As a server does that begins to serve.
        lines = [reader.readline() for _ in range(400)]
        assert [line.split()[:2] for line in lines] == [[b"%d" % round, b"%d" % n] for n in range(400)]
json.dump([questions.count(2), len(threads)], open(sys.argv[1], "w"))
"""
WRITERS = ("print", "stderr", "logging", "one write", "bytes", "fork")


class Unread:
    """A server whose standard error is a pipe that nobody reads."""

    def __init__(self, rev: Rev) -> None:
        command = [sys.executable, "-c", SERVER]
        pipe = subprocess.PIPE
        self.rev = rev
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def __enter__(self) -> Unread:
        if not self.rev.stateless:
            self.say(hello(self.rev.id))
            self.answer()
            self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.long
@pytest.mark.parametrize(
    ("rev", "writer"), [*((HANDSHAKE[-1], writer) for writer in WRITERS), (STATELESS[-1], "print")]
)
def test_a_server_serves_on_and_ends_in_time(rev: Rev, writer: str) -> None:
    with Unread(rev) as server:
        for id in range(1, 3):
            server.say(rev.request(id, "tools/call", {"name": "noise", "arguments": {"writer": writer, "lines": 800}}))
            assert server.answer()["result"]["content"][0]["text"] == "done"
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert exit_code_within(server.process, 2.0) == 0
        server.process.stdin = None


def test_a_reader_gets_all_up_to_the_limit_and_is_told_of_the_rest() -> None:
    with Unread(HANDSHAKE[-1]) as server:
        arguments = {"writer": "stderr", "lines": 3000}
        server.say(server.rev.request(1, "tools/call", {"name": "noise", "arguments": arguments}))
        server.answer()
        assert server.process.stderr is not None
        lines = [server.process.stderr.readline() for _ in range(1000)]
        assert [int(line.split()[0]) for line in lines] == list(range(1000))
        while b"bytes of standard error were dropped" not in (line := server.process.stderr.readline()):
            assert line
        server.say(server.rev.request(2, "tools/call", {"name": "noise", "arguments": {**arguments, "lines": 2}}))
        server.answer()
        assert [server.process.stderr.readline()[:2] for _ in range(2)] == [b"0 ", b"1 "]


def test_a_client_passes_on_what_a_server_writes_and_waits_for_no_reader() -> None:
    program = subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    began = time.monotonic()
    try:
        assert program.stdout is not None and program.stdout.readline().rstrip() == b"done"
        assert program.stderr is not None and program.stderr.readline().split()[0] == b"0"
        assert time.monotonic() - began < 30 * PATIENCE
    finally:
        program.kill()
        program.communicate()


def test_a_pipe_is_asked_for_its_kind_once_and_one_thread_writes_to_it(tmp_path: Path) -> None:
    # On Windows, a question about a pipe waits as long as a thread that writes to it.
    results = tmp_path / "results.json"
    subprocess.run([sys.executable, "-c", ROUNDS, str(results)], check=True, timeout=60 * PATIENCE)
    assert json.loads(results.read_text(encoding="utf-8")) == [1, 1]
