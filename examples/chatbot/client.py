"""The chat client of the tutorials: a model answers questions, line by line, with the tools of MCP servers.

Run it: `python examples/chatbot/client.py SERVER...`, where each SERVER is a command line, a script (.py, .js or .jar),
a URL or a configuration with "mcpServers" (.json). `quit` or the end of the input ends it, and the servers with it.
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
from pathlib import Path
from typing import Final
from unicodedata import category

from model import Call, Message, Model, Question, Reply, Results, Rules
from servers import Launch, Show, Toolbox, parse_launches, start_servers
from settings import load_env_file

# The Unicode categories of characters that are not drawn: controls, formats such as the direction of text, separators.
_STEERING: Final = ("Cc", "Cf", "Zl", "Zp")
_HARMLESS: Final = "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"  # The joiners are part of emoji and words.

KEY: Final = "ANTHROPIC_API_KEY"
ROUNDS: Final = 8  # The maximum number of replies with tool calls to one question.


class Chat:
    """A chat between a user, a model and the tools."""

    def __init__(self, model: Model, toolbox: Toolbox, show: Show, rounds: int = ROUNDS) -> None:
        self._model = model
        self._toolbox = toolbox
        self._show = show
        self._rounds = rounds
        self.messages: list[Message] = []

    async def answer(self, text: str) -> None:
        """Let the model answer, and print its reply. If it fails, remove the question from the messages."""
        before = len(self.messages)
        self.messages.append(Question(text))
        try:
            await self._answer()
        except Exception as error:  # A model is external code: no exception of it may end the chat.
            del self.messages[before:]
            self._show(f"The model failed: {error!r}")

    async def _answer(self) -> None:
        for _ in range(self._rounds):
            reply = await self._model.reply(tuple(self.messages), self._toolbox.tools)
            self.messages.append(reply)
            if reply.text:
                self._show(reply.text)
            if not reply.calls:
                return
            self.messages.append(await self._run(reply.calls))
        stopped = Reply(f"Stopped after {self._rounds} rounds of tools.")
        self.messages.append(stopped)
        self._show(stopped.text)

    async def _run(self, calls: Sequence[Call]) -> Results:
        """Show the calls of one reply, and run them."""
        for call in calls:
            self._show(f"[{call.tool} {json.dumps(call.arguments, default=repr)}]")
        return Results(tuple(await self._toolbox.run(calls)))


async def run(
    launches: Sequence[Launch], model: Model, lines: AsyncIterator[str], show: Show, show_stderr: bool = False
) -> int:
    """Chat until the lines end or one is `quit`. Return the exit code of the program."""

    async def confirm(question: str) -> bool:
        show(question)
        return (await anext(lines, "")).strip().lower() in ("y", "yes")

    async with AsyncExitStack() as closing:
        servers = await start_servers(launches, closing, show, show_stderr)
        if not servers:
            show("No server could be started.")
            return 1
        toolbox = Toolbox(servers, confirm)
        show("Tools: " + (", ".join(tool.name for tool in toolbox.tools) or "none"))
        show("Ask something, or say 'quit'.")
        chat = Chat(model, toolbox, show)
        async for line in lines:
            question = line.strip()
            if question.lower() == "quit":
                break
            if question:
                await chat.answer(question)
    return 0


async def read_lines() -> AsyncIterator[str]:
    """Yield the lines of standard input: a terminal, a pipe or a file.

    A daemon thread reads the file descriptor, so that the process can end while it waits for input.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = os.read(0, 1 << 16)
            except OSError:  # Standard input is closed: the same as its end.
                chunk = b""
            with suppress(RuntimeError):  # The chat has ended, and its event loop is closed.
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    threading.Thread(target=read, daemon=True).start()
    prompt = "> " if sys.stdin is not None and sys.stdin.isatty() else ""
    part = b""
    while True:
        print(prompt, end="", flush=True)
        chunk = await chunks.get()
        if not chunk:
            break
        *lines, part = (part + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if part:
        yield part.decode(errors="replace")


def print_plain(text: str) -> None:
    """Print external text without characters that steer a terminal or change the order of the text."""
    text = text.replace("\r\n", "\n")
    plain = "".join(
        "\N{REPLACEMENT CHARACTER}" if category(character) in _STEERING and character not in _HARMLESS else character
        for character in text
    )
    encoding = sys.stdout.encoding or "utf-8"
    print(plain.encode(encoding, "replace").decode(encoding), flush=True)


def choose_model(show: Show) -> Model:
    """Return the model whose key is in the environment, else the built-in rules."""
    if key := os.environ.get(KEY):
        from claude import Claude  # Imported late: the rules need no HTTP.

        return Claude(key)
    show(f"There is no {KEY} in the environment or in a file .env: built-in rules answer.")
    return Rules()


def main() -> int:
    """Run the program. Return its exit code."""
    parser = argparse.ArgumentParser(description="Chat with the tools of MCP servers.")
    parser.add_argument("servers", nargs="+", metavar="SERVER", help="a command line, a script, or a configuration")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the standard error of the servers")
    options = parser.parse_args()
    try:
        load_env_file(Path.cwd())
        launches = parse_launches(options.servers)
    except ValueError as error:
        parser.error(str(error))
    try:
        return asyncio.run(run(launches, choose_model(print_plain), read_lines(), print_plain, options.verbose))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
