"""The conversation of a trial, in a process of its own: `python conversation.py PLAN.json`, the package on the path.

It imports the package, builds each type, connects a client to a server, and sends each request and notification in both
directions. It prints a JSON array with an object for each problem: the place, and the text.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 30.0  # The time limit of one call, which a busy machine does not reach.
LENGTH = 240  # Characters of a problem.

Plan = dict[str, Any]


class LastFailure(logging.Handler):
    """Remembers the error that a side has logged, which its peer sees as an internal error only."""

    def __init__(self, level: int = logging.ERROR) -> None:
        super().__init__(level)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = short(record.exc_info[1]) if record.exc_info and record.exc_info[1] else record.getMessage()

    def take(self) -> str:
        text = self.text
        self.text = ""
        return " ".join(text.split())[:LENGTH]


class Conversation:
    """One conversation of one package, and the problems in it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.problems: list[dict[str, str]] = []
        self.types: Any = None
        self.parse: Any = None
        self.failure = LastFailure()
        self.left_out = LastFailure(logging.WARNING)  # What conversion leaves out of a list, which is not an error.

    @contextmanager
    def step(self, at: str) -> Generator[None]:
        """Record what is raised as a problem at a place."""
        try:
            yield
        except Exception as error:
            problem = {"at": at, "text": self.failure.take() or short(error)}
            if problem not in self.problems:
                self.problems.append(problem)

    def run(self) -> None:
        package = None
        for module in self.plan["modules"]:
            with self.step(module):
                package = importlib.import_module(module)
        if self.problems or package is None:
            return
        revision = importlib.import_module(self.plan["package"])
        self.types = revision.types
        self.parse = importlib.import_module("mcp_runtime.protocol.models").validator
        self._build_types()
        if not self.problems:
            asyncio.run(self._talk(revision))
            self._explain()
        if not self.problems and "app" in self.plan:
            asyncio.run(self._call_app(importlib.import_module(self.plan["app"])))
            self._explain()

    def _explain(self) -> None:
        """Give the last problem the error that ended a side of the conversation, which its peer sees as an end only."""
        gc.collect()  # A task that has ended by an error logs it when it is deleted.
        if self.problems and (text := self.failure.take()):
            self.problems[-1]["text"] = text

    def _build_types(self) -> None:
        """Build each type, and read its samples with it."""
        for name, samples in self.plan["types"].items():
            with self.step(name):
                read = self.parse(getattr(self.types, name))
                for sample in samples:
                    read(sample)

    async def _talk(self, revision: Any) -> None:
        server = self._side(revision.Server, "client_to_server", carries=True)
        client = self._side(revision.Client, "server_to_client", carries=False)
        with self.step(self.plan["lifecycle"]):
            serving = server(name="trial", version="1", capabilities=self.plan["capabilities"]["server"])
            capabilities = self.plan["capabilities"]["client"]
            async with asyncio.timeout(SECONDS * 3):
                async with client.memory(serving, name="trial", capabilities=capabilities, cache=False) as connected:
                    for call in self.plan["client_to_server"]:
                        if call["sent"]:
                            await self._send(connected, call)

    async def _send(self, sender: Any, call: Plan) -> None:
        """Send a request or notification with each of its samples, and check the type of the result."""
        for sample in call["samples"]:
            with self.step(call["at"]):
                async with asyncio.timeout(SECONDS):
                    result = await send(sender, self.types, call, sample)
                if call["result"]:
                    self.parse(getattr(self.types, call["result"]))(result)

    def _side(self, base: type[Any], direction: str, *, carries: bool) -> type[Any]:
        """Return a class that handles each message of a direction with its samples."""
        return type(
            base.__name__,
            (base,),
            {
                call["handler"]: self._handler(call, carries and call["handler"] == self.plan["carrier"])
                for call in self.plan[direction]
                if call["handled"]
            },
        )

    def _handler(self, call: Plan, carries: bool) -> Any:
        """Return a handler; one that carries sends the messages of the server before its result."""
        result = self.parse(getattr(self.types, call["result"])) if call["result"] else None
        at = iter(range(1 << 30))

        async def handle(_: Any, ctx: Any, params: Any) -> Any:
            if carries:
                for message in self.plan["server_to_client"]:
                    if message["sent"]:
                        await self._send(ctx, message)
            results = call["results"]
            return result(results[next(at) % len(results)]) if result is not None else None

        return handle

    async def _call_app(self, package: Any) -> None:
        """Serve a function with an app, and call it with the client of this revision."""
        with self.step("App"):
            app: Any = package.App("trial")

            def add(a: int, b: int) -> int:
                """Add two numbers."""
                return a + b

            app.tool(add)
            async with asyncio.timeout(SECONDS), package.connect(app) as client:
                result = await client.call_tool("add", {"a": 2, "b": 3})
                texts = [getattr(block, "text", "") for block in result.content]
                assert texts == ["5"], f"a tool returned {texts} instead of 5: {self.left_out.take()}"


async def send(sender: Any, types: Any, call: Plan, sample: Any, **options: Any) -> Any:
    """Send a request or a notification with one of its samples, and return the result. Only requests have options."""
    parse = importlib.import_module("mcp_runtime.protocol.models").validator
    params: Any = parse(getattr(types, call["params"]))(sample) if call["params"] else None
    fields = {name: attribute for name, attribute in call["fields"].items() if attribute in params.model_fields_set}
    arguments = {name: getattr(params, attribute) for name, attribute in fields.items()}
    method = getattr(sender, call["name"])
    options = options if call["result"] else {}
    return await (method(params, **options) if call["whole"] else method(**arguments, **options))


def short(error: BaseException) -> str:
    """Return an error in one line of limited length."""
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    if inner:
        return short(inner[0])
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, AttributeError) and error.name and error.obj is not None:
        return f"the runtime reads {error.name!r}, which {type(error.obj).__name__} does not have"[:LENGTH]
    module = type(error).__module__.partition(".")[0]
    if module == "pydantic_core":
        invalid: Any = error
        reason = importlib.import_module("mcp_runtime.protocol.models").format_validation_error(invalid)
        return f"{invalid.title}: {reason}"[:LENGTH]
    text = " ".join(str(error).split())
    if isinstance(error, AssertionError) and text:
        return text[:LENGTH]
    return (text if module == "mcp_runtime" else f"{type(error).__name__}: {text}")[:LENGTH]


if __name__ == "__main__":
    conversation = Conversation(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    logging.getLogger().addHandler(conversation.failure)
    logging.getLogger("mcp_runtime.versions.conversion").addHandler(conversation.left_out)
    conversation.run()
    print(json.dumps(conversation.problems))
