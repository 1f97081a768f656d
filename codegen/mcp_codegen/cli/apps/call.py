"""The command `call`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from ...errors import CodegenError
from ...json_types import is_list, is_object
from ...output import plain, plain_json
from ...servers.hosts.env_files import assignments, variables_of
from ...servers.probe import parse_target, probe_json
from ..options import DIFFERENT, report_errors
from ..server_options import add_credentials, with_access
from .result_text import result_texts
from .run import with_env, with_env_file
from .server_output import has_terminal, hint_of, server_output, show


@click.command("call", short_help="Call a tool of a server.")
@click.argument("target")
@click.argument("tool")
@click.argument("words", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--arguments", "document", metavar="JSON", help="All arguments as one JSON object.")
@with_env
@with_env_file
@with_access
@click.option("--timeout", type=float, default=60.0, show_default=True, help="The time limit, in seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@report_errors
def call(
    *,
    target: str,
    tool: str,
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
    """Call TOOL of TARGET: a Python file, a URL, or a command in quotation marks.

    \b
    mcp-codegen call server.py add a=1 b=2
    mcp-codegen call https://example.com/mcp search text='two words' limit=5
    mcp-codegen call "npx -y some-server" search --arguments '{"text": "x"}'

    A value is JSON if it is valid JSON and the tool does not want a string there. Notifications go to standard error.
    Exit code 1 if the tool returns an error.
    """
    named = parse_target(target)
    if named.saved is not None:
        raise CodegenError(f"{target}: is a saved list, not a live server; pass a Python file, a URL or a command")
    server = replace(named, env={**named.env, **variables_of(variables, env_files)})
    server = add_credentials(server, headers, login, tokens)
    if document is not None and words:
        raise CodegenError("NAME=VALUE and --arguments exclude each other; pass one of them")
    values = assignments(words, "an argument of the tool") if document is None else _object(document)
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
