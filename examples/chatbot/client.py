"""The chat client of the tutorials: questions go in, line by line; a model answers them with the tools of MCP servers.

Run it: `python examples/chatbot/client.py SERVER...`, where each SERVER is a command line, a script (.py or .js) or a
configuration with "mcpServers" (.json). `quit` or the end of the input ends it, and the servers with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final
from unicodedata import category

from model import Call, Message, Model, Question, Reply, Results, Rules
from servers import Launch, Say, Toolbox, launches, opened

ROUNDS: Final = 8  # How often a model may call tools for one question.


class Chat:
    """One conversation between a person, a model and the tools."""

    def __init__(self, model: Model, toolbox: Toolbox, say: Say, rounds: int = ROUNDS) -> None:
        self._model = model
        self._toolbox = toolbox
        self._say = say
        self._rounds = rounds
        self.messages: list[Message] = []

    async def ask(self, text: str) -> None:
        """Let the model answer, and say what it says. Where it fails, the question is forgotten."""
        before = len(self.messages)
        self.messages.append(Question(text))
        try:
            await self._answer()
        except Exception as fault:  # A model is somebody else's code: whatever it raises must not end the chat.
            del self.messages[before:]
            self._say(f"The model failed: {fault!r}")

    async def _answer(self) -> None:
        for _ in range(self._rounds):
            reply = await self._model.reply(tuple(self.messages), self._toolbox.tools)
            self.messages.append(reply)
            if reply.text:
                self._say(reply.text)
            if not reply.calls:
                return
            self.messages.append(await self._run(reply.calls))
        stopped = Reply(f"Stopped after {self._rounds} rounds of tools.")
        self.messages.append(stopped)
        self._say(stopped.text)

    async def _run(self, calls: Sequence[Call]) -> Results:
        """Run the calls of one reply side by side."""
        for call in calls:
            self._say(f"[{call.tool} {json.dumps(call.arguments, default=repr)}]")
        return Results(tuple(await asyncio.gather(*map(self._toolbox.run, calls))))


async def run(
    wanted: Sequence[Launch], model: Model, lines: AsyncIterator[str], say: Say, show_stderr: bool = False
) -> int:
    """Chat until the lines end or one is `quit`; gives the exit code of the program."""
    async with AsyncExitStack() as closing:
        servers = await opened(wanted, closing, say, show_stderr)
        if not servers:
            say("No server could be started.")
            return 1
        toolbox = Toolbox(servers)
        say("Tools: " + (", ".join(tool.name for tool in toolbox.tools) or "none"))
        say("Ask something, or say 'quit'.")
        chat = Chat(model, toolbox, say)
        async for line in lines:
            question = line.strip()
            if question.lower() == "quit":
                break
            if question:
                await chat.ask(question)
    return 0


async def typed() -> AsyncIterator[str]:
    """The lines of standard input, be it a terminal, a pipe or a file.

    A daemon thread reads the bare descriptor: so nothing keeps the process from ending while nobody types.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = os.read(0, 1 << 16)
            except OSError:  # There is no standard input, or no more: as if it had ended.
                chunk = b""
            with suppress(RuntimeError):  # The chat has ended meanwhile, and its loop is closed.
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)

    threading.Thread(target=read, daemon=True).start()
    prompt = "> " if sys.stdin is not None and sys.stdin.isatty() else ""
    part = b""
    while True:
        print(prompt, end="", flush=True)
        chunk = await arrived.get()
        if not chunk:
            break
        *lines, part = (part + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if part:
        yield part.decode(errors="replace")


def printed(text: str) -> None:
    """Print what others have written, without what would steer the terminal."""
    text = text.replace("\r\n", "\n")
    plain = "".join(
        "\N{REPLACEMENT CHARACTER}" if category(each) == "Cc" and each not in "\n\t" else each for each in text
    )
    encoding = sys.stdout.encoding or "utf-8"
    print(plain.encode(encoding, "replace").decode(encoding), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Chat with the tools of MCP servers.")
    parser.add_argument("servers", nargs="+", metavar="SERVER", help="a command line, a script, or a configuration")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the servers say on standard error")
    given = parser.parse_args()
    try:
        wanted = launches(given.servers, printed)
    except ValueError as fault:
        parser.error(str(fault))
    try:
        return asyncio.run(run(wanted, Rules(), typed(), printed, given.verbose))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
