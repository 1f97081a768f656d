"""What stands around a server: its command, its entry in a configuration, requirements, and what the registry reads."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath, PureWindowsPath
from typing import Final
from urllib.parse import urlsplit

from .findings import Finding, Settings, found
from .safety import secrets_in
from .snapshot import Snapshot, is_list, is_object, text_of
from .table import table

_SCRIPTS: Final = frozenset({"npx", "npm", "pnpm", "yarn", "bunx"})  # Batch files on Windows.
_RUNNERS: Final = frozenset({"npx", "uvx", "pipx", "bunx"})
_SDKS: Final = frozenset({"mcp", "fastmcp"})
_OLD: Final = {"mcp": 1, "fastmcp": 2}  # The majors that depend on private names of others.
_BOUND: Final = {"mcp": "mcp>=2,<3", "fastmcp": "fastmcp>=4,<5"}
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|credential", re.I)
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_DESCRIPTION: Final = 100
_EXACT: Final = re.compile(r"\d+(\.\d+)*([-+.]?[A-Za-z0-9.+-]+)?")


def check_command(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield a command that a host does not find, or starts in a version that nobody chose."""
    words = [text_of(word) for word in snapshot.command]
    if not words or not words[0]:
        return
    command = words[0]
    where = "entry.command" if snapshot.entry is not None else "command"
    is_path = PurePath(command).is_absolute() or PureWindowsPath(command).is_absolute()
    if snapshot.entry is not None:
        full = shutil.which(command)
        if not is_path:
            instead = full or f"that of `which {command}`"
            yield found("command-path", where, f"the command {command!r} is looked for on the path", write=instead)
        if full is None:
            yield found("command-missing", where, f"{command!r} is not on this machine")
    name = PureWindowsPath(command).name.lower().removesuffix(".cmd")
    if name in _SCRIPTS and snapshot.entry is not None:
        yield found("command-windows", where, f"{command!r} is a script on Windows", command=command)
    if name in _RUNNERS and (package := _unpinned(words[1:])):
        pinned = f"{package}{'@' if name in ('npx', 'bunx', 'uvx') else '=='}1.2.3"
        yield found("package-unpinned", where, f"{name} starts {package}", write=pinned)


def _unpinned(words: list[str]) -> str:
    package = next((word for word in words if not word.startswith("-") and word != "run"), "")
    if not package or "/" in package.replace("@", "", 1).partition("/")[2] or "://" in package:
        return ""
    return "" if re.search(r"(?<=.)@[\w.]|==", package) and not package.endswith("@latest") else package


def check_entry(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield an entry where a host does not read it, keys that it does not know, and secrets."""
    if snapshot.entry is None:
        return
    path = snapshot.configuration.as_posix() if snapshot.configuration is not None else ""
    keys = {*snapshot.entry, snapshot.servers_key}
    for fact in table().rules["config-place"].facts:
        if path.endswith(fact.keyword):
            yield found("config-place", "configuration", f"{fact.keyword} is not read", (fact,), write=fact.form)
    for fact in table().rules["config-key"].facts:
        if path.endswith(fact.scope) and fact.keyword in keys:
            yield found("config-key", f"entry.{fact.keyword}", f"the key {fact.keyword!r}", (fact,), write=fact.form)
    for section in ("env", "headers", "environment"):
        values = snapshot.entry.get(section)
        for name, value in values.items() if is_object(values) else ():
            text = text_of(value)
            named = _SECRET_NAME.search(name) and len(text) >= 16 and "$" not in text and "<" not in text
            if named or secrets_in(text):
                yield found("secret-in-configuration", f"entry.{section}.{name}", f"the value of {name}")
    arguments = snapshot.entry.get("args")
    for number, value in enumerate(arguments if is_list(arguments) else []):
        if secrets_in(text_of(value)):
            yield found("secret-in-configuration", f"entry.args.{number}", "a secret in the arguments")


def check_url(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield a URL of another machine without TLS."""
    parts = urlsplit(snapshot.url)
    if parts.scheme == "http" and parts.hostname not in _LOCAL:
        yield found("plain-http", "url", f"http://{parts.hostname}")


def check_requirements(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield requirements of an SDK that break with its next release, or with a newer one of another package."""
    for requirement, file in snapshot.requirements.items():
        match = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*([^;@]*)", requirement)
        name = match[1].lower() if match else ""
        if match is None or name not in _SDKS:
            continue
        bounds = [bound.strip() for bound in match[2].split(",") if bound.strip()]
        pin = next((bound for bound in bounds if bound.startswith("==")), "")
        if pin and _major(pin[2:]) <= _OLD[name]:
            yield found("dependency-old-pin", file, f"{requirement} is an old exact version", write=_BOUND[name])
        elif not pin and not any(bound.startswith(("<", "~=")) for bound in bounds):
            yield found("dependency-unbounded", file, f"{requirement} has no upper bound", write=_upper(name, bounds))


def _upper(name: str, bounds: list[str]) -> str:
    least = next((bound[2:] for bound in bounds if bound.startswith(">=")), "")
    return f"{name}>={least},<{_major(least) + 1}" if least else _BOUND[name]


def _major(version: str) -> int:
    match = re.match(r"\s*(\d+)", version)
    return int(match[1]) if match else 0


def check_registry(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield what the registry refuses of server.json."""
    document = snapshot.registry
    if document is None:
        return
    description, version = text_of(document.get("description")), text_of(document.get("version"))
    if not 1 <= len(description) <= _MAX_DESCRIPTION:
        yield found("registry-description", "server.json.description", f"{len(description)} characters")
    packages = document.get("packages")
    listed = [package for package in packages if is_object(package)] if is_list(packages) else []
    versions = {"version": version} | {
        f"packages.{number}.version": text_of(package.get("version"))
        for number, package in enumerate(listed)
        if package.get("registryType") != "oci"
    }
    for place, value in versions.items():
        if not _EXACT.fullmatch(value) or value != version:
            message = f"{value!r}, and the server's is {version!r}" if _EXACT.fullmatch(version) else repr(value)
            yield found("registry-version", f"server.json.{place}", message, write=version or "1.0.0")
    name = text_of(document.get("name"))
    if any(package.get("registryType") == "pypi" for package in listed) and snapshot.readme is not None:
        if not re.search(rf"mcp-name:\s*{re.escape(name)}(?![\w.-])", snapshot.readme):
            yield found("registry-ownership", "README.md", f"there is no line mcp-name: {name}", write=name)


def check_redirects(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield redirect addresses that a registration has refused."""
    for fact in table().rules["oauth-redirect"].facts:
        if fact.keyword in snapshot.refused_redirects:
            yield found("oauth-redirect", "registration", f"{fact.keyword} is refused", (fact,), write=fact.keyword)


# ---- what stands in a project ----------------------------------------------------------------------------------------


def requirements_of(folder: Path) -> dict[str, str]:
    """Return the requirements of pyproject.toml and requirements.txt in a folder, with their file."""
    listed: dict[str, str] = {}
    # Without the file there is nothing to say, and another tool says what is wrong with it.
    with suppress(OSError, ValueError, AttributeError):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        listed |= dict.fromkeys(map(str, project.get("dependencies", [])), "pyproject.toml")
    with suppress(OSError, ValueError):
        lines = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
        listed |= {line.strip(): "requirements.txt" for line in lines if re.match(r"\s*[A-Za-z]", line)}
    return listed


def project_of(path: Path) -> Path:
    """Return the folder with the pyproject.toml or requirements.txt that is nearest above a file."""
    folders = [path.resolve().parent, *path.resolve().parent.parents][:6]
    marks = ("pyproject.toml", "requirements.txt", "server.json")
    return next((folder for folder in folders if any((folder / mark).is_file() for mark in marks)), folders[0])


def read_project(snapshot: Snapshot, folder: Path) -> None:
    """Add what a project says of its server: requirements, server.json and README."""
    snapshot.requirements = requirements_of(folder)
    try:
        document: object = json.loads((folder / "server.json").read_text(encoding="utf-8"))
        # Other tools have a server.json too.
        snapshot.registry = document if is_object(document) and "packages" in document else None
    except (OSError, ValueError):
        snapshot.registry = None
    readme = next((path for path in (folder / "README.md", folder / "README.rst") if path.is_file()), None)
    snapshot.readme = readme.read_text(encoding="utf-8", errors="replace") if readme is not None else None
