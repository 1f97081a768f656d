"""The forms of a bundle: who installs the packages of its server, and how a host starts it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from ..errors import CodegenError, JsonObject, is_object
from .wheels import LIBRARY, SYSTEMS, this_system

NEWEST: Final = "0.4"  # The only one with the type uv.
_STABLE: Final = "0.3"
START: Final = "start_of_bundle.py"
# Starts the server with the packages of the bundle. It is read by whatever Python the host finds, so it is plain.
_START: Final = '''"""Starts the server of this bundle with the packages of this bundle."""
import os
import runpy
import sys

VERSIONS = {versions}
ROOT = os.path.dirname(os.path.abspath(__file__))
if "%d.%d" % sys.version_info[:2] not in VERSIONS:
    sys.exit("error: this bundle is for Python %s, and Python %s has started it" % (" or ".join(VERSIONS), sys.version))
sys.path[:0] = [os.path.join(ROOT, *place) for place in {places}]
sys.argv[0] = os.path.join(ROOT, *{entry})
runpy.run_path(sys.argv[0], run_name="__main__")
'''


@dataclass(frozen=True, slots=True)
class Form:
    """How a host starts a bundle: the version of its manifest, the type, and the command with its arguments."""

    manifest: str
    kind: str
    entry_point: str
    command: str
    arguments: tuple[str, ...]
    compatibility: JsonObject
    overrides: JsonObject = field(default_factory=dict[str, Any])

    def server(self, variables: Mapping[str, str]) -> JsonObject:
        """Return the part `server` of a manifest; `variables` are those of the process."""
        config: dict[str, Any] = {"command": self.command, "args": list(self.arguments)}
        config |= {"env": dict(variables)} if variables else {}
        config |= {"platform_overrides": self.overrides} if self.overrides else {}
        return {"type": self.kind, "entry_point": self.entry_point, "mcp_config": config}


def uv_form(entry_point: str, project: JsonObject, manifest: str | None) -> Form:
    """Return the form in which uv installs the requirements. Raises CodegenError for an older manifest."""
    if manifest not in (None, NEWEST):
        raise CodegenError(
            f"manifest {manifest} has no type uv; pass --manifest {NEWEST}, or --for linux-x86_64 and others to bring "
            "the packages along"
        )
    runtimes = {"python": semver(str(project.get("requires-python") or ">=3.11"))}
    arguments = ("run", "--directory", "${__dirname}", "python", entry_point)
    return Form(NEWEST, "uv", entry_point, "uv", arguments, {"runtimes": runtimes})


def python_form(systems: Sequence[str], pythons: Sequence[str], manifest: str | None) -> Form:
    """Return the form with the packages of these systems and Pythons in it."""
    names = sorted({SYSTEMS[system].name for system in systems})
    last = max(pythons, key=_numbers)
    bounds = f">={min(pythons, key=_numbers)} <3.{_numbers(last)[1] + 1}"
    compatibility = {"platforms": names, "runtimes": {"python": bounds}}
    overrides = {"win32": {"command": "python"}} if "win32" in names else {}
    return Form(manifest or _STABLE, "python", START, "python3", (f"${{__dirname}}/{START}",), compatibility, overrides)


def starter(entry_point: str, files: Mapping[str, bytes], pythons: Sequence[str]) -> bytes:
    """Return the file that starts a server of Python with the packages of its bundle."""
    parts = PurePosixPath(entry_point).parts
    package = list(parts[:-1])
    while package and "/".join((*package, "__init__.py")) in files:
        package.pop()  # The folder that holds the package, such as src.
    places = [[LIBRARY], list(parts[:-1]), package]
    unique = [place for number, place in enumerate(places) if place not in places[:number]]
    text = _START.format(versions=tuple(pythons), places=json.dumps(unique), entry=json.dumps(list(parts)))
    return text.encode()


def command_form(command: Sequence[str], root: Path, npm: JsonObject, manifest: str | None) -> Form:
    """Return the form of a program of Node, or of one that is executed itself. Raises CodegenError for another one."""
    program = PureWindowsPath(command[0]).name.lower().removesuffix(".exe")
    is_node = program == "node"
    rest = list(command[1:])
    while is_node and rest and rest[0].startswith("-"):
        rest.pop(0)  # An option of Node: a host has its own.
    if is_node and not rest:
        raise CodegenError("node: which file does it run? pass -- node dist/index.js")
    file = Path(rest[0] if is_node else command[0])
    if not file.is_file() or not file.resolve().is_relative_to(root):
        raise CodegenError(
            f"{file}: is no file in {root}; a bundle has the server itself: pass its Python file, -- node FILE, or -- "
            "./PROGRAM"
        )
    entry_point = file.resolve().relative_to(root).as_posix()
    path = f"${{__dirname}}/{entry_point}"
    version = manifest or _STABLE
    if is_node:
        engines = npm.get("engines")
        bounds = str(engines.get("node") or "") if is_object(engines) else ""
        compatibility: JsonObject = {"runtimes": {"node": bounds or ">=18"}}
        return Form(version, "node", entry_point, "node", (path, *rest[1:]), compatibility)
    if not os.access(file, os.X_OK):
        raise CodegenError(f"{file}: cannot be executed here; chmod +x, or pass the program that runs it")
    return Form(version, "binary", entry_point, path, tuple(rest), {"platforms": [SYSTEMS[this_system()].name]})


def semver(bounds: str) -> str:
    """Return a range of Python's packages as one of semver, which has spaces and no commas."""
    return re.sub(r"\s*,\s*", " ", bounds.replace("~=", ">=")).strip()


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
