"""The commands `call` and `inspect`: what a server answers and writes, as a terminal shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import CodegenError, is_list, is_object
from ...output import plain, plain_json
from ...servers.contract import server_identity
from ...servers.environment import assignments, variables_of
from ...servers.probe import ServerTarget, parse_target, probe_json, target_from_config
from ..options import DIFFERENT, FILE, ServerCommand, add_credentials, named_server, report_errors, with_access
from .running import with_env, with_env_file

# The text of a result: what a terminal shows of its content.

_MAX_BLOCK: Final = 300  # Characters of a block without text, such as an image.
_MAX_LINES: Final = 100  # A traceback of a deep stack; what a server writes before it is of no use.
_MAX_LINE: Final = 1000  # Characters.

# What a command cannot do, by the capability that the error of the server names.
_HINTS: Final = {
    "client.elicitation": "the server asks the user with a form, which this command shows in a terminal only: standard "
    "input and standard error are none here",
    "client.sampling": "the server asks for a message of a model, and this command has no model",
    "client.roots": "the server asks for the roots of the client, and this command has none",
}

_LISTS: Final = {
    "tools": ("name", "inputSchema", "description"),
    "resources": ("uri", "name", "description"),
    "resource_templates": ("uriTemplate", "name", "description"),
    "prompts": ("name", "arguments", "description"),
}
_HEADINGS: Final = {"inputSchema": "arguments"}
_MAX_CELL: Final = 300  # Characters.


def result_texts(result: dict[str, Any]) -> Iterable[str]:
    """Yield the text of each content block of a tool, prompt or resource."""
    for key in ("content", "contents", "messages"):
        blocks = result.get(key)
        for block in blocks if is_list(blocks) else []:
            yield _block(block)


def _block(block: object) -> str:
    fields = block if is_object(block) else {}
    role, content = fields.get("role"), fields.get("content")
    if isinstance(role, str):
        return f"{role}: {_block(content)}"
    text = fields.get("text")
    return text if isinstance(text, str) else json.dumps(fields, ensure_ascii=False)[:_MAX_BLOCK]


# What commands show of the standard error of a server, and which of its requests they can answer.


def has_terminal() -> bool:
    """Return True if the user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def server_output() -> Generator[list[str]]:
    """Yield a list for the lines that a server writes to its standard error; show them if the command fails."""
    written: list[str] = []
    try:
        yield written
    except CodegenError as error:
        show(written)
        if (hint := hint_of(str(error))) is not None:
            raise CodegenError(f"{error}: {hint}") from error
        raise


def show(written: list[str]) -> None:
    """Write the last of these lines to standard error, dimmed, without characters that steer a terminal."""
    for line in written[-_MAX_LINES:]:
        click.secho(plain(line[:_MAX_LINE]), dim=True, err=True)


def hint_of(text: str) -> str | None:
    """Return why this command cannot do what a server asks for; None for another error."""
    return next((hint for name, hint in _HINTS.items() if name in text), None)


@click.command("call", cls=ServerCommand, short_help="Call a tool.")
@click.argument("words", nargs=-1, metavar="SERVER TOOL [NAME=VALUE]...")
@click.option("--arguments", "document", metavar="JSON", help="All arguments as one JSON object.")
@with_env
@with_env_file
@with_access
@click.option("--timeout", type=float, default=60.0, show_default=True, help="The time limit, in seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@report_errors
def call(
    *,
    words: tuple[str, ...],
    document: str | None,
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
    headers: tuple[str, ...],
    login: bool,
    tokens: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Call TOOL of a server.

    \b
    mcp-generated call server.py add a=1 b=2
    mcp-generated call https://example.com/mcp search text='two words' limit=5
    mcp-generated call search --arguments '{"text": "x"}' -- npx -y some-server

    A value is JSON if it is valid JSON and the tool does not want a string there. Notifications go to standard error.
    Exit code 1 if the tool returns an error.
    """
    named, rest = named_server(words, "call SERVER TOOL NAME=VALUE")
    if named.saved is not None:
        raise CodegenError(f"{named}: is a saved list, not a live server; pass a Python file, a URL or a command")
    if not rest:
        raise CodegenError(f"{named}: no tool was named; inspect lists its tools")
    tool, *words_of_tool = rest
    server = replace(named, env={**named.env, **variables_of(variables, env_files)})
    server = add_credentials(server, headers, login, tokens)
    if document is not None and words_of_tool:
        raise CodegenError("NAME=VALUE and --arguments exclude each other; pass one of them")
    values = assignments(words_of_tool, "an argument of the tool") if document is None else _object(document)
    arguments = {"name": tool, "arguments": values}
    with server_output() as written:
        output = probe_json(
            server,
            ["tools"],
            timeout,
            "call_tool",
            arguments,
            as_texts=document is None,
            written=written,
            forms=has_terminal(),
        )
    _print(output if is_object(output) else {}, as_json, written)


def _object(document: str) -> dict[str, object]:
    try:
        value: object = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise CodegenError(f"--arguments is not JSON: {error}") from None
    if not is_object(value):
        raise CodegenError('--arguments must be a JSON object, such as \'{"name": "value"}\'')
    return value


def _print(output: dict[str, object], as_json: bool, written: list[str]) -> None:
    called = output.get("called")
    result = called if is_object(called) else {}
    notifications = output.get("notifications")
    for notification in notifications if is_list(notifications) else []:
        click.secho(f"notification: {plain_json(notification)}", dim=True, err=True)
    texts = list(result_texts(result))
    structured = result.get("structuredContent")
    if as_json:
        click.echo(plain_json(result, indent=2))
    elif texts or structured is None:
        for text in texts:
            click.echo(plain(text))
    else:
        click.echo(plain_json(structured, indent=2))
    if result.get("isError") is True:
        show(written)
        if (hint := hint_of("".join(texts))) is not None:
            click.secho(hint, err=True)
        raise SystemExit(DIFFERENT)


@dataclass(frozen=True, slots=True)
class _Call:
    """A method of the client, and its arguments."""

    method: str
    arguments: Mapping[str, object]


@click.command("inspect", short_help="List what a server has.")
@click.option("--config", type=FILE, metavar="FILE", help="A claude_desktop_config.json; needs --server.")
@click.option("--server", metavar="NAME", help="The server in the configuration.")
@click.option("--tool", metavar="NAME", help="Call this tool.")
@click.option("--prompt", metavar="NAME", help="Get this prompt.")
@click.option("--read", "uri", metavar="URI", help="Read this resource.")
@click.option(
    "--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument; parsed as JSON if it is valid JSON."
)
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the server's process.")
@with_access
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, help="The time limit for the server, in seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("target", nargs=-1)
@report_errors
def inspect(
    *,
    config: Path | None,
    server: str | None,
    tool: str | None,
    prompt: str | None,
    uri: str | None,
    arguments: tuple[str, ...],
    variables: tuple[str, ...],
    headers: tuple[str, ...],
    login: bool,
    tokens: Path | None,
    timeout: float,
    as_json: bool,
    target: tuple[str, ...],
) -> None:
    """List the tools, resources and prompts of a server, or call one and show its notifications.

    \b
    mcp-generated inspect server.py
    mcp-generated inspect https://example.com/mcp --tool search --arg text=cats
    mcp-generated inspect -- npx -y some-server

    Exit code 1 if a tool fails.
    """
    named_target = _target(target, config, server, assignments(variables, "--env"))
    server_target = add_credentials(named_target, headers, login, tokens)
    call = _call(tool, prompt, uri, assignments(arguments, "--arg"))
    with server_output() as written:
        output = probe_json(
            server_target,
            list(_LISTS),
            timeout,
            call.method if call else "",
            call.arguments if call else None,
            written=written,
            forms=call is not None and has_terminal(),
        )
    result = output if is_object(output) else {}
    called = result.get("called")
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        _show(result, whole=call is None)
    if is_object(called) and called.get("isError") is True:
        show(written)
        raise SystemExit(DIFFERENT)


def _target(words: tuple[str, ...], config: Path | None, server: str | None, env: Mapping[str, str]) -> ServerTarget:
    if config is not None and server is not None and not words:
        server_target = target_from_config(config, server)
        return replace(server_target, env={**server_target.env, **env})
    if not words or config is not None or server is not None:
        raise CodegenError("no server was named; pass -- COMMAND and its arguments, a URL, or --config and --server")
    server_target = parse_target(words[0]) if len(words) == 1 else ServerTarget(words)
    return replace(server_target, saved=None, env={**server_target.env, **env})


def _call(tool: str | None, prompt: str | None, uri: str | None, arguments: Mapping[str, str]) -> _Call | None:
    match tool, prompt, uri:
        case str(), None, None:
            return _Call(
                "call_tool", {"name": tool, "arguments": {name: _value(text) for name, text in arguments.items()}}
            )
        case None, str(), None:
            return _Call("get_prompt", {"name": prompt, "arguments": dict(arguments)})
        case None, None, str():
            return _Call("read_resource", {"uri": uri})
        case None, None, None:
            return None
        case _:
            raise CodegenError("--tool, --prompt and --read exclude each other; pass one of them")


def _value(text: str) -> object:
    """Return the text parsed as JSON, or the text itself: `5` is a number, `"5"` and `five` are texts."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


# ---- text output -----------------------------------------------------------------------------------------------------


def _show(output: dict[str, Any], whole: bool) -> None:
    console = Console(soft_wrap=True)
    if whole:
        server = output.get("server")
        identity = server_identity(server)
        named = " ".join(str(identity.get(key, "")) for key in ("name", "version"))
        console.print(Text(f"{plain(named)} (revision {plain(str(output.get('revision')))})", style="bold"))
        fields = server if is_object(server) else {}
        console.print(Text(f"capabilities: {plain(json.dumps(fields.get('capabilities'), ensure_ascii=False))}"))
        if isinstance(instructions := fields.get("instructions"), str):
            console.print(Text(plain(instructions)))
        for name, columns in _LISTS.items():
            _list(console, name.replace("_", " "), columns, output.get(name))
        return
    notifications = output.get("notifications")
    for notification in notifications if is_list(notifications) else []:
        console.print(Text(f"notification: {plain(json.dumps(notification, ensure_ascii=False))}", style="dim"))
    called = output.get("called")
    result = dict(called) if is_object(called) else {}
    for text in result_texts(result):
        console.print(Text(plain(text)))
    if result.get("structuredContent") is not None:
        console.print(Text(plain(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)), style="cyan"))


def _list(console: Console, name: str, columns: tuple[str, ...], items: object) -> None:
    if not is_list(items) or not items:
        console.print(Text(f"\nno {name}", style="dim"))
        return
    console.print()
    table = Table(
        name, *(_HEADINGS.get(column, column) for column in columns[1:]), box=None, header_style="bold", pad_edge=False
    )
    for item in items:
        fields = item if is_object(item) else {}
        table.add_row(*(Text(plain(_cell(fields.get(column)))[:_MAX_CELL]) for column in columns))
    console.print(table)


def _cell(value: object) -> str:
    """Return a text, or the names of the arguments of a tool or prompt; optional ones are in brackets."""
    if is_object(value):
        properties, required = value.get("properties"), value.get("required")
        names = list(properties) if is_object(properties) else []
        return " ".join(name if is_list(required) and name in required else f"[{name}]" for name in names)
    if is_list(value):
        arguments = [item for item in value if is_object(item)]
        return " ".join(
            str(item.get("name")) if item.get("required") else f"[{item.get('name')}]" for item in arguments
        )
    return " ".join(value.split()) if isinstance(value, str) else ""
