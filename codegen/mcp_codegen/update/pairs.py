"""The conversations of a trial between revisions, in a process of its own: `python pairs.py PLAN.json`, the package on
the path.

Each revision serves with a class, and the app serves as well; a client of each revision talks to each of them, in
memory, over pipes as stdio has them, and over HTTP. It prints a JSON object: `cells`, the number of conversations,
`problems`, each with its place, its cell and its text, and `without`, the transports that could not be tried here, with
the reason.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .conversation import LastFailure, Plan, send, short
else:
    from conversation import LastFailure, Plan, send, short  # The program beside this one.

SECONDS = 30.0  # The time limit of one call, which a busy machine does not reach.
APP = "an App"
LOWER, UPPER = "client_to_server", "server_to_client"
REFUSED = re.compile(r" → [\w.-]+: .*\b(?:refuse|require|replace|misfit|first|null) [\w.*]+")  # By a rule.

# The reason of a removed method for which no row gives one: it may have another name now.
_UNEXPLAINED = "does not define this method."

Connect = Callable[[], Awaitable[Any]]
Connecting = Callable[[Any], Any]


class Server(NamedTuple):
    """A server: its name in problems, its object, and its revision."""

    name: str
    served: Any
    revision: str


class Cell(NamedTuple):
    """A conversation: a client of one revision with a server, over a transport."""

    server: str
    client: str
    transport: str

    def __str__(self) -> str:
        return f"{self.server} with a client of {self.client} over {self.transport}"


class Pairs:
    """The conversations of one package."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.revisions: Mapping[str, Plan] = plan["revisions"]
        self.problems: list[dict[str, str]] = []
        self.without: dict[str, str] = {}
        self.cells = 0
        self.turn = 0  # Which of the samples a handler returns.
        self.failure = LastFailure()
        self.left_out = LastFailure()  # What conversion leaves out of a list, which is not an error.
        self.left_out.setLevel(logging.WARNING)
        self.package = importlib.import_module(plan["package"])
        self.parse = importlib.import_module("mcp_runtime.protocol.models").validator
        self.chain = importlib.import_module("mcp_products.versions.conversion").chain_of
        self.options = importlib.import_module("mcp_runtime.session.requests").RequestOptions

    async def run(self) -> None:
        servers = [self._class_server(revision) for revision in self.revisions]
        if "app" in self.plan:
            servers.append(self._app())
        for server in servers:
            for transport, connecting in TRANSPORTS.items():
                if transport in self.without or transport not in self.plan.get("transports", TRANSPORTS):
                    continue
                try:
                    async with connecting(server.served) as connect:
                        for revision in self._clients(server):
                            cell = Cell(server.name, revision, transport)
                            await self._converse(cell, server, connect(self, revision))
                except ImportError as error:
                    self.without[transport] = f"{error.name or error} is not installed"

    def _clients(self, server: Server) -> list[str]:
        """Return the revisions of the clients that talk to a server; `only` of the plan limits the pairs to those with
        this revision."""
        only = self.plan.get("only")
        is_other = only is not None and server.revision != only and server.name != APP
        return [revision for revision in self.revisions if not is_other or revision == only]

    # ---- servers -----------------------------------------------------------------------------------------------------

    def _module(self, revision: str) -> Any:
        return importlib.import_module(f"{self.plan['package']}.{self.revisions[revision]['module']}")

    def _class_server(self, revision: str) -> Server:
        """Return a class of a revision that handles each message with samples: the smallest, then the whole one."""
        module, plan = self._module(revision), self.revisions[revision]
        handlers = {call["handler"]: self._handler(module, plan, call) for call in plan[LOWER] if call["handled"]}
        capabilities = plan["capabilities"]["server"]
        served = type("Server", (module.Server,), handlers)(name="trial", version="1", capabilities=capabilities)
        return Server(f"a class of {revision}", served, revision)

    def _handler(self, module: Any, plan: Plan, call: Plan) -> Any:
        result = self.parse(getattr(module.types, call["result"])) if call["result"] else None
        is_carrier = call["handler"] == plan["carrier"]

        async def handle(_: Any, ctx: Any, params: Any) -> Any:
            if is_carrier:
                await ctx.progress(1, total=2)
            return result(call["results"][self.turn]) if result is not None else None

        return handle

    def _app(self) -> Server:
        app: Any = self.package.App("trial")

        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        def greet(name: str) -> str:
            """Greet somebody."""
            return f"hello {name}"

        app.tool(add)
        app.prompt(greet)
        app.resource("trial://text")(lambda: "the text")
        return Server(APP, app, self.package.DEFAULT_REVISION)

    # ---- conversations -----------------------------------------------------------------------------------------------

    async def _converse(self, cell: Cell, server: Server, connect: Connect) -> None:
        self.cells += 1
        module, plan = self._module(cell.client), self.revisions[cell.client]
        handlers = {call["handler"]: self._answer(module, call) for call in plan[UPPER] if call["handled"]}
        client_class = type("Client", (module.Client,), handlers)
        client: Any = client_class(connect, name="trial", capabilities=plan["capabilities"]["client"], cache=False)
        at = "the opening"
        self.left_out.take()
        try:
            async with asyncio.timeout(SECONDS * 3), client as connected:
                if server.name == APP:
                    for at, step in self._app_steps(connected, cell.client):  # noqa: B007  # The place of an error.
                        await step
                    return
                for call in plan[LOWER]:
                    at = call["at"]
                    if call["sent"] and call["handled"] and self._is_common(cell.client, server.revision, call):
                        await self._call(cell, server, connected, call)
        except Exception as error:
            self._note(cell, at, error)

    def _answer(self, module: Any, call: Plan) -> Any:
        result = self.parse(getattr(module.types, call["result"])) if call["result"] else None

        async def handle(_: Any, ctx: Any, params: Any) -> Any:
            return result(call["results"][0]) if result is not None else None

        return handle

    def _is_common(self, client: str, server: str, call: Plan) -> bool:
        """Return True if the revision of the server has a message as well."""
        chain = self.chain(self.plan["package"], client, server)
        return chain.removed_method(LOWER, call["method"]) is None

    async def _call(self, cell: Cell, server: Server, sender: Any, call: Plan) -> None:
        """Send the smallest params, and get the smallest and the whole result. What has all properties may be refused,
        by a rule that says so."""
        carried = self.chain(self.plan["package"], server.revision, cell.client).method(
            LOWER, self.revisions[server.revision]["carried"]
        )
        for number, sample in enumerate(call["samples"]):
            heard: list[Any] = []
            self.turn = number
            try:
                options = self.options(on_progress=heard.append, timeout=SECONDS)
                await send(sender, self._module(cell.client).types, call, sample, options=options)
                if call["method"] == carried and not heard:
                    raise AssertionError("the progress of the request does not arrive")
            except Exception as error:
                text = self._text(error)
                if not number or REFUSED.search(text) is None:
                    self._note(cell, call["at"], error, text)
                    return

    def _app_steps(self, client: Any, revision: str) -> Any:
        """Yield what a client does with the app: the methods and params are those of the app, in its revision."""
        form = self.package.DEFAULT_REVISION
        plan = {call["method"]: call for call in self.revisions[revision][LOWER]}
        chain = self.chain(self.plan["package"], form, revision)
        back = self.chain(self.plan["package"], revision, form)
        rows = {row.name: row for row in self._module(form).methods.REVISION.rows if row.direction == LOWER}

        async def step(name: str, params: Mapping[str, Any], expected: str) -> None:
            method = chain.method(LOWER, rows[name].method)
            removal = chain.removed_method(LOWER, rows[name].method)
            if removal is not None and removal.reason.endswith(_UNEXPLAINED):
                raise LookupError(f"{form} → {revision}: {removal.reason}")
            if removal is not None:
                return
            converted = chain.params(LOWER, rows[name].method, params, provided={"client_capabilities": {}})
            sample = plan[method]["samples"][0]  # It has what each request of the revision has.
            sent = {name: value for name, value in sample.items() if name == "_meta"} | dict(converted)
            types, options = self._module(revision).types, self.options(timeout=SECONDS)
            result = await send(client, types, plan[method], sent, options=options)
            shown = back.result(LOWER, method, result.model_dump())
            if expected not in json.dumps(shown):
                lost = self.left_out.take() or json.dumps(shown)[:100]
                raise AssertionError(f"{method!r} does not carry {expected}: {lost}")

        yield "the tools of an App", step("list_tools", {}, '"name": "add"')
        yield "the arguments of a tool of an App", step("list_tools", {}, '"required": ["a", "b"]')
        yield "the call of a tool of an App", step("call_tool", {"name": "add", "arguments": {"a": 2, "b": 3}}, '"5"')
        yield "the prompts of an App", step("list_prompts", {}, '"name": "greet"')
        yield "a prompt of an App", step("get_prompt", {"name": "greet", "arguments": {"name": "you"}}, "hello you")
        yield "the resources of an App", step("list_resources", {}, "trial://text")
        yield "a resource of an App", step("read_resource", {"uri": "trial://text"}, "the text")

    # ---- problems ----------------------------------------------------------------------------------------------------

    def _text(self, error: BaseException) -> str:
        return str(self.failure.take() or short(error))

    def _note(self, cell: Cell, at: str, error: BaseException, text: str = "") -> None:
        self.problems.append({"at": at, "cell": str(cell), "text": text or self._text(error)})


# ---- transports ------------------------------------------------------------------------------------------------------


def all_services(served: Any) -> Any:
    """Return the services of a server in all revisions."""
    server = getattr(served, "server", served)
    candidates = importlib.import_module("mcp_products.versions.adapters").server_candidates(server)
    return importlib.import_module("mcp_runtime.server.service").service_candidates(candidates)


@asynccontextmanager
async def in_memory(served: Any) -> AsyncGenerator[Callable[[Pairs, str], Connect]]:
    """Connect by two queues."""
    memory = importlib.import_module("mcp_runtime.transports.memory")
    connect = memory.connect_in_memory(all_services(served))
    yield lambda pairs, revision: connect


@asynccontextmanager
async def over_stdio(served: Any) -> AsyncGenerator[Callable[[Pairs, str], Connect]]:
    """Connect over two pipes: the transport of stdio, without a process."""
    if os.name != "posix":
        raise ImportError(name="what watches pipes")
    transport = importlib.import_module("mcp_runtime.transports.stdio.pipes").PipeTransport
    serve = importlib.import_module("mcp_runtime.session.serving").serve
    candidates = all_services(served)
    serving: list[asyncio.Task[None]] = []

    async def connect() -> Any:
        (to_server, from_client), (to_client, from_server) = os.pipe(), os.pipe()
        serving.append(asyncio.create_task(serve(candidates, transport(to_server, from_server))))
        return transport(to_client, from_client)

    try:
        yield lambda pairs, revision: connect
    finally:
        if serving:
            await asyncio.wait(serving, timeout=SECONDS)


@asynccontextmanager
async def over_http(served: Any) -> AsyncGenerator[Callable[[Pairs, str], Connect]]:
    """Connect over HTTP on a socket of this machine."""
    import uvicorn.server

    client = importlib.import_module("mcp_runtime.transports.http_client.transport")
    settings = importlib.import_module("mcp_runtime.transports.http_client.connection")
    app = served.asgi(legacy_sse=True)
    config = uvicorn.Config(app, log_config=None, lifespan="off")
    config.load()
    state = uvicorn.server.ServerState()

    def protocol() -> Any:
        return config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg]

    listening = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"

    def connect(pairs: Pairs, revision: str) -> Connect:
        spoken = importlib.import_module(
            f"{pairs.plan['package']}.{pairs.revisions[revision]['module']}.methods"
        ).REVISION
        path = "/mcp" if spoken.http.streamable else "/sse"

        async def start() -> Any:
            return client.HTTPClientTransport(origin + path, spoken, settings.HTTPOptions())

        return start

    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.close)
        stack.callback(listening.close)
        yield connect
    for connection in list(state.connections):
        connection.shutdown()


TRANSPORTS: Mapping[str, Connecting] = {"memory": in_memory, "stdio": over_stdio, "HTTP": over_http}


if __name__ == "__main__":
    pairs = Pairs(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    logging.getLogger().addHandler(pairs.failure)
    conversion = logging.getLogger("mcp_runtime.versions.conversion")
    conversion.addHandler(pairs.left_out)
    asyncio.run(pairs.run())
    print(json.dumps({"cells": pairs.cells, "problems": pairs.problems, "without": pairs.without}))
