"""How to reach a server goes in as arguments of `python -m mcp_runtime.introspect`, what it offers comes out as JSON.

What connects to a server runs in a process of its own, so that a generator needs neither the runtime nor its loop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from importlib import import_module
from typing import Any, Final, cast

from pydantic import BaseModel

from .bindings.client import BaseClient, negotiate
from .client.core import ClientCore
from .errors import MCPError, ProtocolViolationError, RemoteError
from .protocol.revision import Notification
from .session.options import RequestOptions

_LOGIN: Final = 300.0  # Seconds a person gets to log in.
_LOGIN_HINT: Final = "the server wants a login: --login opens a browser, --header gives a token that you have"
_MAX_PAGES: Final = 10_000  # Of one kind: a list that never ends would fill the memory.


def main(words: Sequence[str] | None = None) -> int:
    """Print one JSON object: revision, server, a list for each `--list`; with `--call` also what that gave, in
    `called`, and what the server told meanwhile, in `told`. 1 where the server cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m mcp_runtime.introspect", description=__doc__)
    parser.add_argument("--bindings", required=True, help="the generated package that has the revisions")
    parser.add_argument("--list", action="append", default=[], help="a list to ask for, such as `tools`")
    parser.add_argument("--call", help="a method of the client to call as well, such as `call_tool`")
    parser.add_argument("--arguments", type=json.loads, default={}, help="its arguments, a JSON object")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for everything")
    parser.add_argument("--url", help="the endpoint of a server over HTTP")
    parser.add_argument("--login", action="store_true", help="log in with a browser where the server asks for it")
    parser.add_argument("--tokens", help="a file that keeps the login")
    parser.add_argument(
        "--private",
        action="store_true",
        help="read from standard input `env`, variables for the child process, and `headers`, as one JSON object",
    )
    parser.add_argument("--cwd", help="the folder the child process starts in")
    parser.add_argument("command", nargs="*", help="what starts a server over stdio")
    chosen = parser.parse_args(words)
    limit = chosen.timeout + (_LOGIN if chosen.login else 0)
    try:
        offered = asyncio.run(asyncio.wait_for(_introspect(chosen), limit))
    except TimeoutError:
        return _failed(f"the server did not say what it offers within {limit:g} seconds")
    except (MCPError, OSError, ImportError) as fault:
        unknown = getattr(fault, "status", None) == 401
        return _failed(f"{fault}; {_LOGIN_HINT}" if unknown else str(fault))
    json.dump(offered, sys.stdout, ensure_ascii=True)
    return 0


def _failed(reason: str) -> int:
    print(" ".join(reason.split()), file=sys.stderr)
    return 1


async def _introspect(options: argparse.Namespace) -> dict[str, Any]:
    told: list[dict[str, Any]] = []
    private: dict[str, Any] = json.load(sys.stdin) if options.private else {}
    with _login(options) as auth:
        client = await negotiate(*_clients(options, private, auth, told))
        try:
            return await _listing(client, options, told)
        finally:
            await client.close()


async def _listing(client: ClientCore, options: argparse.Namespace, notices: list[dict[str, Any]]) -> dict[str, Any]:
    server = client.server.model_dump() if client.server is not None else {}
    offered: dict[str, Any] = {"revision": client.revision.id, "server": server}
    for name in cast("list[str]", options.list):
        offered[name] = await _all(client, name)
    if options.call:
        call_options = RequestOptions(
            timeout=options.timeout, on_progress=lambda each: notices.append({"progress": asdict(each)})
        )
        called = await getattr(client, options.call)(**options.arguments, options=call_options)
        offered |= {"called": called.model_dump(), "told": notices}
    return offered


@contextmanager
def _login(options: argparse.Namespace) -> Generator[Any]:
    """What logs in with a browser, if that was chosen."""
    if not (options.login and options.url):
        yield None
        return
    from .auth.client.browser import LoopbackBrowser
    from .auth.client.file_storage import FileTokenStorage
    from .auth.client.grants import AuthorizationCode
    from .auth.client.provider import OAuthClientProvider

    with closing(LoopbackBrowser(open_url=_open)) as browser:
        grant = AuthorizationCode(browser, browser.redirect, client_name="mcp-codegen", timeout=_LOGIN)
        yield OAuthClientProvider(
            options.url, grant, storage=FileTokenStorage(options.tokens) if options.tokens else None
        )


def _open(url: str) -> None:
    """Show and open a URL, in a process that does not keep what this one writes to open."""
    print(f"to log in, open {url}", file=sys.stderr, flush=True)
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.executable, "-m", "webbrowser", url], start_new_session=True, **quiet)


def _clients(
    options: argparse.Namespace, private: dict[str, Any], auth: Any, notices: list[dict[str, Any]]
) -> list[BaseClient]:
    """A client of each revision there is, oldest first; what they are told is noted."""
    index = import_module(options.bindings)
    packages = [import_module(f"{options.bindings}.{module}") for module in index.REVISIONS.values()]
    kinds = [_notice_class(package.Client, notices) if options.call else package.Client for package in packages]
    if options.url:
        from .transports.http_client.connection import HTTPOptions

        http = HTTPOptions(headers=private.get("headers", {}), auth=auth)
        return [kind.http(options.url, http=http) for kind in kinds]
    settings: dict[str, Any] = {"env": private.get("env", {}), "cwd": options.cwd}
    return [kind.stdio(*options.command, **settings) for kind in kinds]


def _notice_class(kind: type[BaseClient], notices: list[dict[str, Any]]) -> type[BaseClient]:
    """A client that notes every notification for which its class has a handler."""

    def noting(name: str) -> Callable[..., Awaitable[None]]:
        async def note(self: BaseClient, ctx: object, params: BaseModel) -> None:
            notices.append({name: params.model_dump()})

        return note

    rows = (row for row in kind.revision.rows if isinstance(row, Notification) and hasattr(kind, row.name))
    return type(kind.__name__, (kind,), {row.name: noting(row.name) for row in rows})


async def _all(client: ClientCore, name: str) -> list[dict[str, Any]]:
    """Everything in one of the server's lists; nothing where it has none."""
    items: list[dict[str, Any]] = []
    try:
        async for item in getattr(client, f"iter_{name}")():
            items.append(cast(BaseModel, item).model_dump())
            if len(items) > _MAX_PAGES:
                raise RemoteError(f"the server lists more than {_MAX_PAGES} {name}")
    except ProtocolViolationError:
        return []
    return items


if __name__ == "__main__":
    sys.exit(main())
