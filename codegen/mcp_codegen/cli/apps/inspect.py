"""The command `inspect`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import CodegenError
from ...json_types import is_list, is_object
from ...output import plain
from ...servers.hosts.env_files import assignments
from ...servers.identity import server_identity
from ...servers.probe import ServerTarget, parse_target, probe_json, target_from_config
from ..options import DIFFERENT, FILE, report_errors
from ..server_options import add_credentials, with_access
from .result_text import result_texts
from .server_output import has_terminal, server_output, show

_LISTS: Final = {
    "tools": ("name", "inputSchema", "description"),
    "resources": ("uri", "name", "description"),
    "resource_templates": ("uriTemplate", "name", "description"),
    "prompts": ("name", "arguments", "description"),
}
_HEADINGS: Final = {"inputSchema": "arguments"}
_MAX_CELL: Final = 300  # Characters.


@dataclass(frozen=True, slots=True)
class _Call:
    """A method of the client, and its arguments."""

    method: str
    arguments: Mapping[str, object]


@click.command("inspect", short_help="List and call a server.")
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
    """List the features of a server, or call one and show its notifications: inspect server.py, inspect URL, or
    inspect -- COMMAND….

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
