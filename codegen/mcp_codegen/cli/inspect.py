"""The command `inspect`: how to reach a server goes in, what it offers and what a call gives come out, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import CodegenError
from ..json_types import is_list, is_object
from ..output import plain
from ..servers.probe import ServerTarget, configured, named, probe_json
from .options import DIFFERENT, FILE, report_errors
from .server_options import add_credentials, with_access

_LISTS: Final = {
    "tools": ("name", "inputSchema", "description"),
    "resources": ("uri", "name", "description"),
    "resource_templates": ("uriTemplate", "name", "description"),
    "prompts": ("name", "arguments", "description"),
}
_LONGEST: Final = 300  # Characters of one cell.


@dataclass(frozen=True, slots=True)
class _Call:
    """A method of the client, and its arguments."""

    method: str
    arguments: Mapping[str, object]


@click.command("inspect", short_help="Show what a server offers, and call it.")
@click.option("--config", type=FILE, metavar="FILE", help="A claude_desktop_config.json; needs --server.")
@click.option("--server", metavar="NAME", help="Which server of the configuration.")
@click.option("--tool", metavar="NAME", help="Call this tool.")
@click.option("--prompt", metavar="NAME", help="Get this prompt.")
@click.option("--read", "uri", metavar="URI", help="Read this resource.")
@click.option("--arg", "given", multiple=True, metavar="NAME=VALUE", help="An argument; JSON where it is no text.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the server's process.")
@with_access
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds the server has.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("target", nargs=-1)
@report_errors
def inspect(
    config: Path | None,
    server: str | None,
    tool: str | None,
    prompt: str | None,
    uri: str | None,
    given: tuple[str, ...],
    variables: tuple[str, ...],
    headers: tuple[str, ...],
    login: bool,
    tokens: Path | None,
    timeout: float,
    as_json: bool,
    target: tuple[str, ...],
) -> None:
    """Show what a server offers, call it, and show what it tells meanwhile: inspect -- COMMAND… or inspect URL.

    Exit code 1 where a tool says that it failed.
    """
    meant = _target(target, config, server, _pairs(variables, "--env"))
    chosen = add_credentials(meant, headers, login, tokens)
    call = _call(tool, prompt, uri, _pairs(given, "--arg"))
    said = probe_json(chosen, list(_LISTS), timeout, call.method if call else "", call.arguments if call else None)
    answer = said if is_object(said) else {}
    called = answer.get("called")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        _show(answer, whole=call is None)
    if is_object(called) and called.get("isError") is True:
        raise SystemExit(DIFFERENT)


def _target(words: tuple[str, ...], config: Path | None, server: str | None, env: Mapping[str, str]) -> ServerTarget:
    if config is not None and server is not None and not words:
        found = configured(config, server)
        return replace(found, env={**found.env, **env})
    if not words or config is not None or server is not None:
        raise CodegenError("say which server is meant: -- COMMAND and its arguments, a URL, or --config and --server")
    found = named(words[0]) if len(words) == 1 else ServerTarget(words)
    return replace(found, saved=None, env=env)


def _call(tool: str | None, prompt: str | None, uri: str | None, given: Mapping[str, str]) -> _Call | None:
    match tool, prompt, uri:
        case str(), None, None:
            return _Call("call_tool", {"name": tool, "arguments": {name: _value(each) for name, each in given.items()}})
        case None, str(), None:
            return _Call("get_prompt", {"name": prompt, "arguments": dict(given)})
        case None, None, str():
            return _Call("read_resource", {"uri": uri})
        case None, None, None:
            return None
        case _:
            raise CodegenError("--tool, --prompt and --read: one of them at a time")


def _pairs(words: Iterable[str], option: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if not all(name and sign for name, sign, _ in pairs):
        raise CodegenError(f"{option} takes NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _value(text: str) -> object:
    """JSON where it is some; so `5` is a number, `"5"` and `five` are texts."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


# ---- for people ---------------------------------------------------------------------------------------------------------


def _show(answer: dict[str, Any], whole: bool) -> None:
    console = Console(soft_wrap=True)
    if whole:
        server = answer.get("server")
        console.print(Text(f"revision {plain(str(answer.get('revision')))}", style="bold"))
        console.print(Text(plain(json.dumps(server, ensure_ascii=False))))
        for name, columns in _LISTS.items():
            _list(console, name.replace("_", " "), columns, answer.get(name))
        return
    told = answer.get("notifications")
    for each in told if is_list(told) else []:
        console.print(Text(f"told: {plain(json.dumps(each, ensure_ascii=False))}", style="dim"))
    called = answer.get("called")
    result = dict(called) if is_object(called) else {}
    for text in _texts(result):
        console.print(Text(plain(text)))
    if result.get("structuredContent") is not None:
        console.print(Text(plain(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)), style="cyan"))


def _list(console: Console, name: str, columns: tuple[str, ...], items: object) -> None:
    if not is_list(items) or not items:
        console.print(Text(f"\nno {name}", style="dim"))
        return
    console.print()
    table = Table(name, *columns[1:], box=None, header_style="bold", pad_edge=False)
    for item in items:
        said = item if is_object(item) else {}
        table.add_row(*(Text(plain(_cell(said.get(column)))[:_LONGEST]) for column in columns))
    console.print(table)


def _cell(value: object) -> str:
    """A text as it is, the arguments of a tool or prompt as their names: those in brackets may be left out."""
    if is_object(value):
        properties, required = value.get("properties"), value.get("required")
        names = list(properties) if is_object(properties) else []
        return " ".join(name if is_list(required) and name in required else f"[{name}]" for name in names)
    if is_list(value):
        known = [each for each in value if is_object(each)]
        return " ".join(str(each.get("name")) if each.get("required") else f"[{each.get('name')}]" for each in known)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _texts(result: dict[str, Any]) -> Iterable[str]:
    """What a tool, a prompt or a resource says, block by block."""
    for key in ("content", "contents", "messages"):
        blocks = result.get(key)
        for block in blocks if is_list(blocks) else []:
            yield _block(block)


def _block(block: object) -> str:
    said = block if is_object(block) else {}
    role, content = said.get("role"), said.get("content")
    if isinstance(role, str):
        return f"{role}: {_block(content)}"
    text = said.get("text")
    return text if isinstance(text, str) else json.dumps(said, ensure_ascii=False)[:_LONGEST]
