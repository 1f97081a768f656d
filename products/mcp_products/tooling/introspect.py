"""`python -m mcp_runtime.introspect`: connect to a server, and print its tools, resources and prompts as JSON.

It runs in a separate process, so that the code generator depends neither on the runtime nor on an event loop.
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
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, cast

from pydantic import BaseModel

from mcp_runtime._lazy import load
from mcp_runtime.bindings.client import BaseClient, negotiate
from mcp_runtime.client.core import DISTRIBUTION, ClientCore
from mcp_runtime.errors import LocalError, MCPError, ProtocolViolationError, RemoteError
from mcp_runtime.protocol.revision import InputRequest, Notification, Request
from mcp_runtime.session.requests import RequestOptions

from .terminal_forms import answer_at_terminal

_LOGIN_SECONDS: Final = 300.0  # Seconds that the user has to log in.
_FORM_SECONDS: Final = 600.0  # Seconds that the user has to answer forms.
_LOGIN_HINT: Final = "the server requires authorization: use --login for a browser login, or --header for a token"
_JSON_TYPES: Final[dict[str, type | tuple[type, ...]]] = {  # The order matters: a bool is an int.
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": float,
    "string": str,
    "array": list,
    "object": dict,
}
_MAX_ITEMS: Final = 10_000  # The limit of one list: a list without an end would fill the memory.


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one JSON object, and return 0; return 1 if the server cannot be reached.

    The object has `revision`, `server`, and one list for each `--list`. With `--call`, it has the result as `called`,
    and the notifications and progress that arrived before the result as `notifications`.
    """
    parser = argparse.ArgumentParser(prog="python -m mcp_runtime.introspect", description=__doc__)
    parser.add_argument("--bindings", required=True, help="the generated package with the revisions")
    parser.add_argument("--list", action="append", default=[], help="a list to request, such as `tools`")
    parser.add_argument("--call", help="a method of the client to call as well, such as `call_tool`")
    parser.add_argument("--arguments", type=json.loads, default={}, help="its arguments, a JSON object")
    parser.add_argument("--texts", action="store_true", help="convert the tool's arguments from text by its schema")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for everything")
    parser.add_argument("--url", help="the endpoint of a server over HTTP")
    parser.add_argument("--login", action="store_true", help="log in with a browser if the server requires it")
    parser.add_argument("--tokens", help="a file to store the tokens in")
    parser.add_argument(
        "--private",
        action="store_true",
        help="read `env`, variables of the child process, `headers`, `url` and `arguments` from standard input, as one "
        "JSON object",
    )
    parser.add_argument(
        "--forms", action="store_true", help="ask the user at the terminal what forms of the server ask"
    )
    parser.add_argument("--cwd", help="the working directory of the child process")
    parser.add_argument("command", nargs="*", help="the command that starts a stdio server")
    options = parser.parse_args(arguments)
    limit = options.timeout + (_LOGIN_SECONDS if options.login else 0) + (_FORM_SECONDS if options.forms else 0)
    try:
        description = asyncio.run(asyncio.wait_for(_introspect(options), limit))
    except (MCPError, OSError, ImportError) as error:
        if isinstance(error, TimeoutError) and not isinstance(error, MCPError):
            return _report_failure(f"the server did not respond within {limit:g} seconds")
        unknown = getattr(error, "status", None) == 401
        return _report_failure(f"{error}; {_LOGIN_HINT}" if unknown else str(error))
    json.dump(description, sys.stdout, ensure_ascii=True)
    return 0


def _report_failure(reason: str) -> int:
    print(" ".join(reason.split()), file=sys.stderr)
    return 1


async def _introspect(options: argparse.Namespace) -> dict[str, Any]:
    notifications: list[dict[str, Any]] = []
    private: dict[str, Any] = json.load(sys.stdin) if options.private else {}
    options.url = private.get("url") or options.url
    options.arguments = private.get("arguments") or options.arguments
    with _login(options) as auth:
        client = await negotiate(*_clients(options, private, auth, notifications))
        try:
            return await _listing(client, options, notifications)
        finally:
            await client.close()


async def _listing(
    client: ClientCore, options: argparse.Namespace, notifications: list[dict[str, Any]]
) -> dict[str, Any]:
    server = client.server.to_dict()
    description: dict[str, Any] = {"revision": client.revision.id, "server": server}
    for name in cast("list[str]", options.list):
        description[name] = await _list_all(client, name)
    if options.call:
        call_options = RequestOptions(
            timeout=options.timeout + (_FORM_SECONDS if options.forms else 0),
            on_progress=lambda progress: notifications.append({"progress": asdict(progress)}),
        )
        arguments = options.arguments
        if options.texts:
            tools = description.get("tools") or await _list_all(client, "tools")
            arguments = {**arguments, "arguments": _typed_arguments(tools, arguments["name"], arguments["arguments"])}
        called = await getattr(client, options.call)(**arguments, options=call_options)
        description |= {"called": called.model_dump(), "notifications": notifications}
    return description


def _typed_arguments(tools: list[dict[str, Any]], name: str, texts: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of a tool: JSON where the text is JSON and the schema does not want this text itself.

    Raises LocalError for a tool that is not in the list.
    """
    schemas = {tool["name"]: tool["inputSchema"] for tool in tools}
    if name not in schemas:
        nearest = get_close_matches(name, schemas, 1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise LocalError(f"the server has no tool {name!r}{hint} (its tools: {', '.join(schemas) or 'none'})")
    properties = schemas[name].get("properties", {})
    return {key: _typed_argument(text, properties.get(key, {})) for key, text in texts.items()}


def _typed_argument(text: str, schema: Any) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    types = _types_in(schema)
    kind = next(name for name, python in _JSON_TYPES.items() if isinstance(value, python))
    is_number = kind in ("integer", "number") and "number" in types
    return text if "string" in types and kind not in types and not is_number else value


def _types_in(schema: Any) -> set[str]:
    """Return the JSON types that a schema names, in its alternatives too; none where it leaves them open."""
    if not isinstance(schema, dict):
        return set()
    fields = cast("dict[str, Any]", schema)
    types: set[str] = {fields["type"]} if isinstance(fields.get("type"), str) else set(fields.get("type", ()))
    if all(isinstance(value, str) for value in fields.get("enum", [None])):
        types.add("string")
    return types.union(*(_types_in(branch) for key in ("anyOf", "oneOf") for branch in fields.get(key, ())))


@contextmanager
def _login(options: argparse.Namespace) -> Generator[Any]:
    """Yield the OAuth provider for a browser login, None without `--login`."""
    if not (options.login and options.url):
        yield None
        return
    auth: Any = load("mcp_products.auth.client.browser")  # An extra installs it.
    with closing(auth.LoopbackBrowser(open_url=_open)) as browser:
        yield auth.login_in_browser(options.url, browser, DISTRIBUTION, options.tokens)


def _open(url: str) -> None:
    """Print and open a URL, in a process that does not inherit the standard streams of this one."""
    print(f"to log in, open {url}", file=sys.stderr, flush=True)
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.executable, "-m", "webbrowser", url], start_new_session=True, **quiet)


def _clients(
    options: argparse.Namespace, private: dict[str, Any], auth: Any, notifications: list[dict[str, Any]]
) -> list[BaseClient]:
    """Return one client for each revision, oldest first; they record notifications if a method is called."""
    index = import_module(options.bindings)
    packages = [import_module(f"{options.bindings}.{module}") for module in index.REVISIONS.values()]
    kinds = [
        _recording_class(package.Client, notifications, options.forms) if options.call else package.Client
        for package in packages
    ]
    forms = [_form_capability(package) if options.forms else {} for package in packages]
    if options.url:
        from mcp_runtime.transports.http_client.connection import HTTPOptions

        http = HTTPOptions(headers=private.get("headers", {}), auth=auth)
        return [kind.http(options.url, http=http, **more) for kind, more in zip(kinds, forms, strict=True)]
    settings: dict[str, Any] = {"env": private.get("env", {}), "cwd": options.cwd}
    return [kind.stdio(*options.command, **settings, **more) for kind, more in zip(kinds, forms, strict=True)]


def _form_capability(package: Any) -> dict[str, Any]:
    """Return the keyword that declares forms, and URLs where the version has them; nothing where it has no forms."""
    if not hasattr(package.types, "ElicitResult"):
        return {}
    has_urls = hasattr(package.types, "ElicitRequestURLParams")
    return {"capabilities": {"elicitation": {"form": {}, "url": {}} if has_urls else {}}}


def _recording_class(
    kind: type[BaseClient], notifications: list[dict[str, Any]], forms: bool = False
) -> type[BaseClient]:
    """Return a client class that records every notification that its class has a handler for, and asks the user for
    `forms`."""

    def recording(name: str) -> Callable[..., Awaitable[None]]:
        async def record(self: BaseClient, ctx: object, params: BaseModel) -> None:
            notifications.append({name: params.model_dump()})

        return record

    rows = (row for row in kind.revision.rows if isinstance(row, Notification) and hasattr(kind, row.name))
    members: dict[str, Any] = {row.name: recording(row.name) for row in rows}
    form = next((row for row in kind.revision.rows if row.name == "on_elicit"), None)
    if forms and isinstance(form, (Request, InputRequest)):
        result: type[BaseModel] = form.result

        async def on_elicit(self: BaseClient, ctx: object, params: BaseModel) -> Any:
            return result.model_validate(await asyncio.to_thread(answer_at_terminal, params.model_dump()))

        members["on_elicit"] = on_elicit
    return type(kind.__name__, (kind,), members)


async def _list_all(client: ClientCore, name: str) -> list[dict[str, Any]]:
    """Return all items of one of the server's lists; an empty list if the server does not have the capability."""
    items: list[dict[str, Any]] = []
    try:
        async for item in getattr(client, f"iter_{name}")():
            items.append(cast(BaseModel, item).model_dump())
            if len(items) > _MAX_ITEMS:
                raise RemoteError(f"the server lists more than {_MAX_ITEMS} {name}")
    except ProtocolViolationError:
        return []
    return items


if __name__ == "__main__":
    sys.exit(main())
