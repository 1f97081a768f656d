"""The command `lint`: what hosts, model APIs and models would refuse of a server, and what `--fix` writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path, PureWindowsPath
from typing import Any, Final
from urllib.parse import urlsplit

import click

from ...errors import CodegenError, JsonObject, is_list, is_object
from ...migrate.report import Edited, python_files, refuse_changed, write
from ...output import plain
from ...paths import read_toml
from ...servers.contract import read_lock
from ...servers.environment import variables_of
from ...servers.hosts import read_config
from ...servers.probe import (
    ServerTarget,
    entry_of,
    is_python_file,
    parse_target,
    require_python_file,
    split_server,
    target_from_config,
)
from ..options import FILE, ServerCommand, add_credentials, command_words, report_errors
from .running import with_env, with_env_file

_LINT: Final = (sys.executable, "-P", "-m", "mcp_products.lint")  # -P: the current folder hides no module.
_SETTINGS: Final = ("host", "ignore", "budget", "strict")  # What [tool.mcp-lint] may have.
_NO_LIBCST: Final = "Python sources stay as they are: pip install 'mcp-generated[migrate]'"


@click.command("lint", cls=ServerCommand, short_help="Find what hosts and models would refuse.")
@click.argument("servers", nargs=-1, metavar="SERVER...")
@click.option(
    "--host", "hosts", multiple=True, metavar="HOST", help="Only what this host minds; openai is all of OpenAI."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github", "markdown"]),
    default="text",
    help="How to report. Default: text.",
)
@click.option("--budget", type=click.IntRange(min=1), metavar="TOKENS", help="Fail above so many tokens of all tools.")
@click.option("--ignore", "ignored", multiple=True, metavar="RULE", help="Leave this rule out: its code or its name.")
@click.option("--strict", is_flag=True, help="Warnings fail too.")
@click.option("--call", "with_calls", is_flag=True, help="Call tools that only read and need no argument.")
@click.option("--register", is_flag=True, help="Register the redirect addresses of hosts at a server with a URL.")
@click.option("--lock", "lock", type=FILE, metavar="FILE", help="Compare with this lock of mcp-codegen lock.")
@click.option("--name", metavar="NAME", help="The name of its entry in hosts. Default: the server's own.")
@click.option(
    "--config", type=FILE, metavar="FILE", help="A pyproject.toml with [tool.mcp-lint]. Default: ./pyproject.toml."
)
@click.option("--fix", is_flag=True, help="Write what is certain: bounds, configurations, server.json, sources.")
@click.option("--force", is_flag=True, help="Fix files with changes that git has not committed.")
@click.option("--no-start", is_flag=True, help="Read configuration and project only.")
@click.option("--all", "whole", is_flag=True, help="Show every place.")
@click.option("--rules", is_flag=True, help="List the rules, and exit.")
@click.option("--timeout", type=float, default=120.0, show_default=True, help="Seconds for each server.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header for a URL.")
@with_env
@with_env_file
@report_errors
def lint(
    *,
    servers: tuple[str, ...],
    headers: tuple[str, ...],
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
    **options: Any,
) -> None:
    """Start a server, read what a host reads, and say who would refuse what, since when, and what to write.

    \b
    mcp-generated lint server.py
    mcp-generated lint server.py --host cursor --host openai --budget 10000
    mcp-generated lint .cursor/mcp.json              all servers of a configuration
    mcp-generated lint --format sarif -- npx -y some-server
    mcp-generated lint explain M012

    Exit code 0: no error; 1: there is one; 2: wrong use. Nothing is called without --call.
    """
    if options["rules"] or servers[:1] == ("explain",):
        word = servers[1] if len(servers) == 2 else ""
        if not options["rules"] and not word:
            raise CodegenError("explain takes one rule, such as explain M012; --rules lists them")
        raise SystemExit(_run({"rules": options["rules"], "explain": word}))
    env = variables_of(variables, env_files)
    targets = [target for word in servers for target in _targets(word, options["name"])]
    if (command := command_words("lint SERVER")) is not None:
        described = _described(ServerTarget(command), _named_by(command), options["name"])
        program = next((word for word in command if word.endswith(".py") and Path(word).is_file()), "")
        targets.append({**described, "program": program and str(Path(program).resolve())})
    if not targets:
        raise CodegenError("no server was named; write lint SERVER")
    for target in targets:
        target["env"] = {**target["env"], **env}
        if headers:
            access = add_credentials(ServerTarget(tuple(target["command"]), target["url"]), headers, False, None).access
            target["headers"] = {**target["headers"], **access.headers}
    request = {"servers": targets, **_settings(options), "file": servers[0] if servers else "server"}
    if options["fix"]:
        for line in fix(proposal_of(_LINT, {**request, "propose": True}), options["force"]):
            click.echo(plain(line), err=True)
    raise SystemExit(_run(request))


def _run(document: dict[str, Any]) -> int:
    return subprocess.run(_LINT, input=json.dumps(document).encode(), check=False).returncode


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    kept = _configured(options["config"])
    lock: Mapping[str, Any] = read_lock(options["lock"]).tools if options["lock"] is not None else {}
    return {
        "hosts": [*(options["hosts"] or kept.get("host", []))],
        "ignored": [*(options["ignored"] or kept.get("ignore", []))],
        "budget": options["budget"] or kept.get("budget", 0),
        "strict": options["strict"] or kept.get("strict", False),
        "lock": dict(lock),
        "format": options["form"],
        "call": options["with_calls"],
        "start": not options["no_start"],
        "whole": options["whole"],
        "register": options["register"],
        "timeout": options["timeout"],
    }


def _configured(path: Path | None) -> JsonObject:
    """Return [tool.mcp-lint] of a pyproject.toml. Raises CodegenError for a file that cannot be read, and for a key
    that there is not."""
    file = path or Path("pyproject.toml")
    if path is None and not file.is_file():
        return {}
    tool = read_toml(file).get("tool")
    settings: Any = tool.get("mcp-lint", {}) if is_object(tool) else {}
    if not is_object(settings):
        raise CodegenError(f"{file}: [tool.mcp-lint] must be a table with the keys {', '.join(_SETTINGS)}")
    if unknown := sorted(set(settings) - set(_SETTINGS)):
        raise CodegenError(f"{file}: [tool.mcp-lint] has {', '.join(unknown)}; its keys are {', '.join(_SETTINGS)}")
    for key, kind in (("host", list), ("ignore", list), ("budget", int), ("strict", bool)):
        if key in settings and not isinstance(settings[key], kind):
            raise CodegenError(f"{file}: {key} of [tool.mcp-lint] must be of type {kind.__name__}")
    return settings


def _targets(word: str, name: str | None) -> list[dict[str, Any]]:
    """Return the servers of one word: one, or all of a configuration."""
    place = entry_of(word)
    if place is None and word.endswith(".json") and Path(word).is_file() and (servers := _entries(Path(word))[1]):
        return [_of_entry(Path(word), key, name) for key in servers]
    if place is not None:
        return [_of_entry(*place, name)]
    target = parse_target(word)
    if target.saved is not None:
        raise CodegenError(f"{word}: has no servers; pass a configuration of a host, or a server")
    described = _described(target, _name_of(split_server(word)[0]), name)
    source = require_python_file(word) if is_python_file(word) else None
    return [{**described, "source": str(source) if source else ""}]


def _named_by(command: tuple[str, ...]) -> str:
    """Return the name of the file that a command runs, or of its program."""
    files = (word for word in command[1:] if PureWindowsPath(word).suffix and Path(word).is_file())
    return PureWindowsPath(next(files, command[0])).name or command[0]


def _name_of(place: str) -> str:
    """Return the last name of a path or a URL; the user and the query of a URL may have secrets."""
    if "://" not in place:
        return place.rpartition("/")[2].removesuffix(".py")
    parts = urlsplit(place)
    return parts.path.rstrip("/").rpartition("/")[2] or parts.hostname or ""


def _entries(path: Path) -> tuple[str, JsonObject]:
    document = read_config(path)
    for key in ("mcpServers", "servers", "mcp"):
        value = document.get(key)
        if is_object(value) and all(map(is_object, value.values())):
            return key, value
    return "", {}


def _of_entry(path: Path, key: str, name: str | None) -> dict[str, Any]:
    section, servers = _entries(path)
    entry = servers.get(key)
    if not is_object(entry):
        raise CodegenError(f"{path}: has no server {key!r}; its servers are: {', '.join(servers) or 'none'}")
    url = next((str(entry[word]) for word in ("url", "httpUrl", "serverUrl") if entry.get(word)), "")
    if url:
        target = ServerTarget(url=url, env={}, label=key)
    elif is_list(words := entry.get("command")):  # opencode has one list.
        target = ServerTarget(tuple(map(str, words)))
    else:
        target = target_from_config(path, key)
    described = _described(target, key, name or key)
    values = entry.get("headers")
    if is_object(values):
        described["headers"] = {header: str(value) for header, value in values.items()}
    return {**described, "entry": entry, "configuration": str(path.resolve()), "servers_key": section}


def _described(target: ServerTarget, label: str, name: str | None) -> dict[str, Any]:
    return {
        "name": name or label,
        "named": name is not None,
        "url": target.url,
        "command": list(target.command),
        "env": dict(target.env),
        "cwd": target.cwd,
        "headers": dict(target.access.headers),
    }


# What `lint --fix` writes: what the lint process proposes, and changes of Python sources where libcst is installed.


def fix(proposal: Mapping[str, Any], force: bool) -> list[str]:
    """Write what is certain, each file in one step, and return a line for each change and for each that is left.

    Args:
        proposal: What the lint process has found: edits of files, and what is wrong with each server.
        force: Whether files are written that git says have changes.

    Raises CodegenError for such files, and OutputError for a link and for a file that cannot be written.
    """
    texts: dict[Path, bytes] = {}
    lines: list[str] = []
    for edit in proposal["edits"]:
        path = Path(edit["path"])
        texts[path] = edit["text"].encode()
        lines.append(f"fixed {path.name}:{edit['line']} {edit['code']}: {edit['change']}")
    for server in proposal["servers"]:
        if server["source"]:
            lines += _sources(server, texts)
    files = [Edited(path, path.read_bytes(), data) for path, data in texts.items()]
    if not force:
        for folder in sorted({file.path.parent for file in files}):
            refuse_changed([file for file in files if file.path.parent == folder], folder)
    write(files)
    return lines


def _sources(server: Mapping[str, Any], texts: dict[Path, bytes]) -> list[str]:
    """Add the changed Python files of one server to `texts`, and return the lines of the report."""
    wrong = ("refused", "noise", "bare")
    try:
        fixes: Any = import_module("mcp_codegen.migrate.python_fixes")
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        return [_NO_LIBCST] if any(server[key] for key in wrong) else []
    folder = Path(server["source"]).parent
    wanted = fixes.Wanted(
        tuple(server["refused"]), frozenset(server["names"]), server["noise"], frozenset(server["bare"])
    )
    found = fixes.fixed_sources(python_files(folder), wanted)
    texts.update(found.texts)
    changed = [
        f"fixed {item.path.relative_to(folder).as_posix()}:{item.line} {item.code}: {item.before} → {item.after}"
        for item in found.changes
    ]
    return [*changed, *found.left]


def proposal_of(command: Sequence[str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the lint process would change. Raises CodegenError if it fails."""
    done = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, check=False)
    if done.returncode or not done.stdout:
        raise CodegenError(done.stderr.decode("utf-8", "replace").strip() or "lint has ended without an answer")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
