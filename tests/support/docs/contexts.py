"""Names that code blocks of the documentation use without defining them, as real objects.

Each context is an asynchronous context manager that fills the namespace of a block. What it does after its `yield`
checks the result of the block.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import threading
import webbrowser
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any, Final

import httpx2
import uvicorn
from support.clients import connect

from mcp_generated import App, Context, KeyRing
from mcp_generated.auth import AuthorizationServer, ResourceServer
from mcp_generated.http import listen
from mcp_generated.v2026_07_28 import Client, Server
from mcp_generated.v2026_07_28 import types as t

ROOT: Final = Path(__file__).resolve().parents[3]
Namespace = dict[str, Any]


def _calculator() -> App:
    app = App("calculator")

    @app.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return app


@asynccontextmanager
async def _served(application: Callable[[str], Any]) -> AsyncIterator[str]:
    """Serve an application over HTTP and yield its origin; `application` makes it for that origin."""
    with listen("127.0.0.1", 0) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(application(origin), log_level="warning", timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield origin
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def app(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`app`: an app without tools. Afterwards its resources, prompts and completion are used."""
    namespace["app"] = App("docs")
    yield
    async with connect(namespace["app"].server) as client:
        [weather] = (await client.read_resource("weather://Rome/1")).contents
        assert "sun" in weather.text
        [document] = (await client.read_resource("file:///docs/a/b.md")).contents
        assert document.text == "The text of a/b.md"
        assert (await client.get_prompt("review", {"code": "1"})).messages
        reference = t.ResourceTemplateReference(uri="weather://{city}/{day}")
        argument = t.CompletionArgument(name="city", value="P")
        assert (await client.complete(ref=reference, argument=argument)).completion.values == ["Paris"]


@asynccontextmanager
async def order(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`charge`, `order`, `form` and `Context`. Afterwards the handler `pay` runs as a tool, with one elicitation."""
    charged: list[str] = []
    form = t.ElicitRequestFormParams.model_validate(
        {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    )

    def charge(order: str) -> str:
        charged.append(order)
        return f"receipt {order}"

    namespace.update(charge=charge, order="1", form=form, Context=Context)
    yield
    shop = App("shop")
    shop.add_tool(namespace["pay"])

    class Buyer(Client):
        async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
            return t.ElicitResult(action="accept", content={})

    async with Buyer.memory(shop.server) as client:
        result: Any = await client.call_tool("pay")
    assert result.content[0].text == "receipt 1: accept"
    assert charged == ["1"]


@asynccontextmanager
async def keys(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`new_key` and `old_key`."""
    namespace.update(new_key=KeyRing.new_key(), old_key=KeyRing.new_key())
    yield


class _Weather(Server):
    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[])

    async def list_resources(self, ctx: Any, params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[])


@asynccontextmanager
async def weather_server(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`server`: a server that publishes changes."""
    capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}}
    namespace["server"] = _Weather(name="weather", version="1", capabilities=capabilities)
    yield


@asynccontextmanager
async def weather_class(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`Weather`: a server class. Afterwards `server` is one."""
    namespace["Weather"] = _Weather
    yield
    assert isinstance(namespace["server"], _Weather)


@asynccontextmanager
async def http(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`url`: a server over HTTP with the tool `add`."""
    async with _served(lambda origin: _calculator().asgi(path="/mcp")) as origin:
        namespace["url"] = f"{origin}/mcp"
        yield


@asynccontextmanager
async def sse(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`sse_url`: a server over HTTP+SSE with the tool `add`."""
    async with _served(lambda origin: _calculator().asgi(legacy_sse=True)) as origin:
        namespace["sse_url"] = f"{origin}/sse"
        yield


@asynccontextmanager
async def client(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`client`: a client of the newest version, of a server with the tool `add`."""
    async with Client.memory(_calculator().server) as connected:
        namespace["client"] = connected
        yield


@asynccontextmanager
async def tracer(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`client`, with the tool `alerts`, and `tracer`. Afterwards the spans of both sides belong to one trace."""
    from opentelemetry.sdk.trace import TracerProvider

    docs_tracer = TracerProvider().get_tracer("docs")
    traces: list[int] = []
    weather = App("weather")

    @weather.tool()
    async def alerts() -> str:
        with docs_tracer.start_as_current_span("look up") as span:
            traces.append(span.get_span_context().trace_id)
            assert span.parent is not None  # type: ignore[attr-defined]
        return "none"

    async with Client.memory(weather.server) as connected:
        namespace.update(client=connected, tracer=docs_tracer)
        yield
    assert len(traces) == 1


@asynccontextmanager
async def skills(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """The folder `skills`."""
    copy_skills(folder)
    yield


def copy_skills(folder: Path) -> None:
    """Copy the skills of the example into a folder."""
    shutil.copytree(ROOT / "examples" / "skills" / "skills", folder / "skills", dirs_exist_ok=True)


@asynccontextmanager
async def everything(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """The folder `examples` and the module `everything`, written by the command that the page shows."""
    (folder / "examples").symlink_to(ROOT / "examples")
    command = ["tools", "--from", "python examples/everything/server.py", "--output", "everything.py"]
    written = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "mcp_codegen", *command], cwd=folder, capture_output=True, text=True
    )
    assert written.returncode == 0, written.stderr
    yield


@asynccontextmanager
async def acp(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """The package `acp`, generated with the manifest of the page for a part of ACP, and an agent for it."""
    await _generate_protocol(folder, "acp", 0, "schema.json", "agent.py")
    yield


@asynccontextmanager
async def a2a(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`url`, where the server of the page is, and the package `a2a`, generated with its manifest for a part of A2A."""
    page = await _generate_protocol(folder, "a2a", 1, "a2a.json")
    (program,) = re.findall(r"^<!-- file: words.py -->\n```py\n(.*?)^```$", page, re.M | re.S)
    words: Namespace = {"__name__": "words"}
    exec(compile(program, "words.py", "exec"), words)
    async with _served(lambda _: words["application"]) as namespace["url"]:
        yield


async def _generate_protocol(folder: Path, name: str, number: int, *files: str) -> str:
    """Generate a package with the manifest of this number on the page of protocols; return the text of the page."""
    page = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    manifest = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)[number]
    (folder / "protocol.toml").write_text(manifest, encoding="utf-8")
    for file in files:
        shutil.copy(Path(__file__).parent / "protocols" / file, folder)
    command = [sys.executable, "-m", "mcp_codegen", "protocol", "protocol.toml", "--output", name]
    written = await asyncio.to_thread(subprocess.run, command, cwd=folder, capture_output=True, text=True)
    assert written.returncode == 0, written.stderr
    return page


class _Login:
    """Every browser belongs to Ada."""

    async def current_user(self, request: Any) -> str | None:
        return "ada"

    def login_url(self, return_to: str) -> str:
        raise AssertionError("Ada is logged in")


@asynccontextmanager
async def authorization_server(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`my_login` and `app`. Afterwards the application serves the metadata of the authorization server."""
    namespace.update(my_login=_Login(), app=_calculator())
    yield
    transport = httpx2.ASGITransport(app=namespace["application"])
    async with httpx2.AsyncClient(transport=transport, base_url="https://notes.example") as web:
        metadata = (await web.get("/.well-known/oauth-authorization-server")).raise_for_status().json()
        assert metadata["issuer"] == namespace["server"].issuer
        assert (await web.post("/mcp", json={})).status_code == 401


class _Browser(webbrowser.BaseBrowser):
    """A browser whose user allows everything."""

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        threading.Thread(target=self._allow, args=(url,), daemon=True).start()
        return True

    def _allow(self, url: str) -> None:
        with httpx2.Client() as web:
            page = web.get(url)
            ticket = re.search(r'name="?ticket"? value="([^"]+)"', page.text)
            action = re.search(r'action="([^"]+)"', page.text)
            assert ticket and action, page.text
            form = {"ticket": unescape(ticket[1]), "decision": "allow"}
            origin = f"{page.url.scheme}://{page.url.netloc.decode()}"
            answer = web.post(page.url.join(unescape(action[1])), data=form, headers={"origin": origin})
            target = answer.headers.get("location") or re.search(r'href="([^"]+)"', answer.text)[1]  # type: ignore[index]
            web.get(unescape(target))


@asynccontextmanager
async def protected(namespace: Namespace, folder: Path) -> AsyncGenerator[None]:
    """`url`: a server that needs a token, with an authorization server; and a browser whose user allows everything."""

    def application(origin: str) -> Any:
        resource = f"{origin}/mcp"
        server = AuthorizationServer(origin, resources=[resource], login=_Login())
        auth = ResourceServer(resource, [origin], verifier=server.verifier(resource))
        return server.wrap(_calculator().asgi(path="/mcp", auth=auth))

    webbrowser.register("docs", None, _Browser(), preferred=True)
    async with _served(application) as origin:
        namespace["url"] = f"{origin}/mcp"
        yield


CONTEXTS: Final[dict[str, Callable[[Namespace, Path], AbstractAsyncContextManager[None]]]] = {
    "a2a": a2a,
    "acp": acp,
    "app": app,
    "authorization-server": authorization_server,
    "client": client,
    "everything": everything,
    "http": http,
    "keys": keys,
    "order": order,
    "protected": protected,
    "skills": skills,
    "sse": sse,
    "tracer": tracer,
    "weather-class": weather_class,
    "weather-server": weather_server,
}
FILES: Final[dict[str, Callable[[Path], None]]] = {"skills": copy_skills}
