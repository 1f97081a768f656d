"""A bundle (.mcpb): its manifest from the server itself, what goes into it, and rules stricter than its schema."""

from __future__ import annotations

import ast
import io
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from ..errors import CodegenError, JsonObject, is_list, is_object

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

_MAX_BYTES: Final = 64 << 20
_MAX_BUILT: Final = 256 << 20  # With the packages of Node.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # Two bundles of one source are equal.
BUILT: Final = frozenset({"node_modules", "dist", "build", "target"})  # What a program of Node or Rust consists of.
_LEFT_OUT: Final = BUILT | frozenset(
    ".git .venv venv env __pycache__ .pytest_cache .mypy_cache .ruff_cache .cache .bin tests test .github "
    ".vscode .cursor .idea".split()
)
_SECRET_FILES: Final = re.compile(r"\.env(\..*)?|.*\.(pem|key|p12|mcpb|log|pyc)|id_[a-z0-9]+")
_SECRET: Final = re.compile(r"key|token|secret|passw|credential", re.I)
_OF_SYSTEM: Final = frozenset(
    "HOME PATH USER SHELL LANG TERM TMPDIR PWD PYTHONPATH USERPROFILE APPDATA NODE_ENV CI".split()
)
_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".ts", ".mts")
_OF_NODE: Final = re.compile(rb"""process\.env(?:\.([A-Z][A-Z0-9_]*)|\[["']([A-Za-z]\w*)["']\])""")
_USED: Final = re.compile(r"\$\{user_config\.([^}]*)\}")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?")
_TOP: Final = {
    "0.1": "$schema dxt_version manifest_version name display_name version description long_description author "
    "repository homepage documentation support icon screenshots server tools tools_generated prompts "
    "prompts_generated keywords license compatibility user_config",
    "0.2": "privacy_policies",
    "0.3": "icons localization _meta",
    "0.4": "",
}
MANIFESTS: Final = tuple(_TOP)
_NEEDED: Final = ("name", "version", "description", "author", "server")
_TYPES: Final = {"0.1": ("python", "node", "binary"), "0.4": ("python", "node", "binary", "uv")}
_CONFIG_TYPES: Final = ("string", "number", "boolean", "directory", "file")
_PLATFORMS: Final = ("darwin", "win32", "linux")
_RUNTIME: Final = "compatibility.runtimes.python"


class System(NamedTuple):
    """A system: its name in a manifest, the tags of its wheels, and what markers of requirements say there."""

    name: str
    tags: tuple[str, ...]
    markers: Mapping[str, str]


def _linux(machine: str) -> System:
    tags = tuple(f"manylinux{version}_{machine}" for version in ("_2_28", "_2_17", "2014"))
    return System("linux", tags, _markers("linux", "Linux", "posix", machine))


def _mac(machine: str) -> System:
    tags = (f"macosx_14_0_{machine}", "macosx_14_0_universal2")  # pip takes those of older systems too.
    return System("darwin", tags, _markers("darwin", "Darwin", "posix", machine))


def _windows(machine: str, tag: str) -> System:
    return System("win32", (tag,), _markers("win32", "Windows", "nt", machine))


def _markers(system: str, name: str, kind: str, machine: str) -> dict[str, str]:
    return {"sys_platform": system, "platform_system": name, "os_name": kind, "platform_machine": machine}


SYSTEMS: Final = {
    "linux-x86_64": _linux("x86_64"),
    "linux-aarch64": _linux("aarch64"),
    "macos-arm64": _mac("arm64"),
    "macos-x86_64": _mac("x86_64"),
    "windows-x86_64": _windows("AMD64", "win_amd64"),
    "windows-arm64": _windows("ARM64", "win_arm64"),
}
LIBRARY: Final = "site-packages"  # The folder of the packages in a bundle.
_MAX_WHEEL_BYTES: Final = 256 << 20
_LIMIT: Final = 600  # Seconds that pip may take for one system and Python.
# pip evaluates the markers of requirements for the Python that runs it, also with --platform: pip issue 11664. So its
# environment of markers is that of the system and the Python that the wheels are for. It is private, and changed in a
# process of its own: tests/cli/test_pack_forms.py fails where pip has moved it.
_PIP: Final = """import json, sys
from pip._vendor.packaging import markers
here, there = markers.default_environment, json.loads(sys.argv[1])
markers.default_environment = lambda: {**here(), **there}
from pip._internal.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def this_system() -> str:
    """Return the name of the system that runs this, such as linux-x86_64. Raises CodegenError for another one."""
    names = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
    machines = {"amd64": "x86_64", "aarch64": "aarch64", "arm64": "arm64", "x86_64": "x86_64"}
    name = f"{names.get(platform.system(), platform.system())}-{machines.get(platform.machine().lower(), '')}"
    if name not in SYSTEMS:
        raise CodegenError(f"this system is not known; pass --for with one of {', '.join(SYSTEMS)}")
    return name


def packages_of(requirements: Sequence[str], systems: Sequence[str], pythons: Sequence[str]) -> dict[str, bytes]:
    """Return the files of all packages that requirements need, as one folder for these systems and Pythons.

    Raises CodegenError if pip finds no wheel, and if two wheels have different files of one name, as those for the two
    processors of macOS have: these need a bundle each.
    """
    found: dict[str, tuple[bytes, str]] = {}
    size = 0
    for system in systems:
        for python in pythons:
            for name, data, wheel in _files_for(requirements, system, python):
                if name not in found:
                    size += len(data)
                elif _text(found[name][0]) != _text(data) and not _is_metadata(name):
                    raise CodegenError(
                        f"{name} is another file in {wheel} than in {found[name][1]}; make a bundle for each: pass one "
                        "--for and one --python"
                    )
                if size > _MAX_WHEEL_BYTES:
                    raise CodegenError(f"the packages have more than {_MAX_WHEEL_BYTES >> 20} MiB; pass fewer --for")
                found.setdefault(name, (data, wheel))
    return {f"{LIBRARY}/{name}": data for name, (data, _) in found.items()}


def _files_for(requirements: Sequence[str], system: str, python: str) -> Iterator[tuple[str, bytes, str]]:
    with TemporaryDirectory() as folder:
        _download(requirements, system, python, folder)
        for wheel in sorted(Path(folder).glob("*.whl")):
            yield from ((name, data, wheel.name) for name, data in _unpacked(wheel))


def _download(requirements: Sequence[str], system: str, python: str, folder: str) -> None:
    chosen = SYSTEMS[system]
    markers = {**chosen.markers, "python_version": python, "python_full_version": f"{python}.0"}
    options = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--implementation", "cp"]
    options += ["--python-version", python, *(word for tag in chosen.tags for word in ("--platform", tag))]
    command = [sys.executable, "-c", _PIP, json.dumps(markers), "download", *options, "--dest", folder, *requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CodegenError(f"pip cannot download packages for {system}: {error}") from None
    if "No module named 'pip'" in done.stderr:
        raise CodegenError(f"pip is not there, which downloads packages: {sys.executable} -m ensurepip")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
        raise CodegenError(f"{system} and Python {python}: {reason}; without --for, the uv of the host installs them")


def _unpacked(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a wheel by their places below site-packages; its scripts are left out."""
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            first, *rest = PurePosixPath(name).parts
            if name.endswith("/") or ".." in rest or first in ("..", "/"):
                continue
            if first.endswith(".data"):
                if rest[0] not in ("purelib", "platlib"):
                    continue
                name = "/".join(rest[1:])
            yield name, opened.read(name if not first.endswith(".data") else "/".join((first, *rest)))


def _text(data: bytes) -> bytes:
    """Return a file as Linux has it: wheels for Windows may have other ends of lines."""
    return data.replace(b"\r\n", b"\n")


def _is_metadata(name: str) -> bool:
    return PurePosixPath(name).parts[0].endswith(".dist-info")


# The forms of a bundle: who installs the packages of its server, and how a host starts it.


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
            f"{file}: is not a file in {root}; a bundle has the server itself: pass its Python file, -- node FILE, or "
            "-- ./PROGRAM"
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


# A bundle (.mcpb): its manifest from the server itself, what goes into it, and rules stricter than its schema.


# ---- what the source reads of its environment ------------------------------------------------------------------------


def variables_read(sources: Mapping[str, bytes]) -> dict[str, str | None]:
    """Return the variables that sources read, each with its default; None for one that has to be there.

    Sources are those of Python, and those of Node without its packages. In the latter, none has to be there.
    """
    found: dict[str, str | None] = {}
    for name, data in sources.items():
        if name.endswith(_SCRIPTS) and "node_modules" not in PurePosixPath(name).parts:
            found |= {(first or second).decode(): "" for first, second in _OF_NODE.findall(data)}
        if name.endswith(".py"):
            try:
                tree = ast.parse(data, name)
            except (SyntaxError, ValueError) as error:
                raise CodegenError(f"{name}: is not Python: {error}") from None
            for variable, default in (row for node in ast.walk(tree) for row in _reads(node)):
                found[variable] = default if variable not in found else (found[variable] or default)
    return {name: default for name, default in sorted(found.items()) if name not in _OF_SYSTEM}


def is_secret(variable: str) -> bool:
    """Return True if the name of a variable says that its value is a secret."""
    return _SECRET.search(variable) is not None


def _reads(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    match node:
        case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(name)), ctx=ast.Load()):
            yield name, None
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr="environ"), attr="get") | ast.Attribute(attr="getenv"),
            args=[ast.Constant(value=str(name)), *rest],
        ):
            default = rest[0].value if rest and isinstance(rest[0], ast.Constant) else ""
            yield name, str(default) if default is not None else ""
        case _:
            pass


# ---- the manifest ----------------------------------------------------------------------------------------------------


def manifest_of(
    server: JsonObject, lists: JsonObject, project: JsonObject, form: Form, variables: Mapping[str, str | None]
) -> JsonObject:
    """Return the manifest of a live server, its project's metadata, and the variables that its source reads."""
    name = str(project.get("name") or server.get("name") or "server")
    config = {variable.lower(): _user_config(variable, default) for variable, default in variables.items()}
    environment = {variable: f"${{user_config.{variable.lower()}}}" for variable in variables}
    authors = project.get("authors")
    author = authors[0] if is_list(authors) and authors and is_object(authors[0]) else {}
    described = str(project.get("description") or server.get("title") or f"The MCP server {name}.")
    manifest: dict[str, Any] = {
        "manifest_version": form.manifest,
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-"),
        "version": str(project.get("version") or server.get("version") or "0.1.0"),
        "description": described,
        "author": {key: author[key] for key in ("name", "email") if author.get(key)} or {"name": name},
        "server": form.server(environment),
        "compatibility": form.compatibility,
    }
    if title := server.get("title"):
        manifest["display_name"] = title
    for kind in ("tools", "prompts"):
        items = lists.get(kind)
        rows = [_listed(item, kind) for item in items if is_object(item)] if is_list(items) else []
        if rows and kind == "tools":
            manifest[kind] = rows
        elif rows:  # The text of a prompt comes from the server, and a manifest without it is refused.
            manifest["prompts_generated"] = True
    if config:
        manifest["user_config"] = config
    if isinstance(licence := project.get("license"), str):
        manifest["license"] = licence
    return manifest


def _listed(item: JsonObject, kind: str) -> JsonObject:
    return {key: item[key] for key in ("name", "description") if item.get(key)}


def _user_config(variable: str, default: str | None) -> JsonObject:
    title = variable.replace("_", " ").capitalize()
    field: dict[str, Any] = {"type": "string", "title": title, "description": f"The variable {variable}."}
    hidden = is_secret(variable)
    field["required"] = default is None
    if hidden:
        field["sensitive"] = True
    if default is not None:  # Without one, hosts pass the text ${user_config.…} where the user has set nothing.
        field["default"] = "" if hidden else default
    return field


# ---- the files -------------------------------------------------------------------------------------------------------


def files_of(folder: Path, kept: frozenset[str] = frozenset()) -> dict[str, bytes]:
    """Return what a bundle of this folder has: sources and data, without environments, caches, tests and secrets.

    `kept` are names of folders that are left out otherwise.

    Raises CodegenError for a folder that is too large, and for a link out of it.
    """
    files: dict[str, bytes] = {}
    size, limit, left_out = 0, _MAX_BUILT if kept else _MAX_BYTES, _LEFT_OUT - kept
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if any(part in left_out for part in place.parts) or _SECRET_FILES.fullmatch(path.name) or not path.is_file():
            continue
        if not path.resolve().is_relative_to(folder.resolve()):
            raise CodegenError(f"{path}: is a link out of the folder; copy what it leads to")
        size += path.stat().st_size
        if size > limit:
            raise CodegenError(f"{folder}: has more than {limit >> 20} MiB; move what the server does not need")
        files[place.as_posix()] = path.read_bytes()
    return files


def project_of(data: bytes | None) -> JsonObject:
    """Return the table `project` of a pyproject.toml, empty without one. Raises CodegenError."""
    try:
        project: Any = tomllib.loads(data.decode()).get("project", {}) if data is not None else {}
    except ValueError as error:
        raise CodegenError(f"pyproject.toml: cannot be read: {error}") from None
    return project if is_object(project) else {}


def archive(files: Mapping[str, bytes], programs: Container[str] = ()) -> bytes:
    """Return the files as a zip, byte for byte the same for the same files; `programs` may be executed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as bundle:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100755 if name in programs else 0o100644) << 16
            bundle.writestr(info, data)
    return buffer.getvalue()


def read_bundle(path: Path) -> tuple[JsonObject, list[str]]:
    """Return the manifest and the names of a bundle. Raises CodegenError if it is none."""
    try:
        with zipfile.ZipFile(path) as bundle:
            names = bundle.namelist()
            document: object = json.loads(bundle.read("manifest.json"))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise CodegenError(f"{path}: is not a bundle with a manifest.json: {error}") from None
    if not is_object(document):
        raise CodegenError(f"{path}: manifest.json must be an object")
    return document, names


# ---- stricter rules --------------------------------------------------------------------------------------------------


def problems_of(manifest: JsonObject, names: Sequence[str]) -> Iterator[str]:
    """Yield what a host refuses of a bundle, and what it takes without a word and cannot start."""
    version = str(manifest.get("manifest_version") or manifest.get("dxt_version"))
    if version not in _TOP:
        yield f"manifest_version is {version!r}; the versions are {', '.join(_TOP)}"
        return
    known = {key for number, keys in _TOP.items() if number <= version for key in keys.split()}
    yield from (f"{key}: no key of manifest {version}" for key in manifest if key not in known)
    yield from (f"{key} is missing or empty" for key in _NEEDED if not manifest.get(key))
    if not _VERSION.fullmatch(str(manifest.get("version"))):
        yield f"version {manifest.get('version')!r} is not a version; write 1.0.0"
    author = manifest.get("author")
    if not (is_object(author) and author.get("name")):
        yield "author.name is missing"
    for place in names:
        if place.startswith("/") or ".." in PurePosixPath(place).parts:
            yield f"the file {place!r} is outside the bundle"
    server = manifest.get("server")
    yield from _problems_of_server(server if is_object(server) else {}, version, names)
    yield from _problems_of_config(manifest)
    compatibility = manifest.get("compatibility")
    if is_object(compatibility):
        yield from _problems_of_compatibility(compatibility)


def _problems_of_server(server: JsonObject, version: str, names: Sequence[str]) -> Iterator[str]:
    kinds = _TYPES["0.4" if version >= "0.4" else "0.1"]
    if server.get("type") not in kinds:
        yield f"server.type is {server.get('type')!r}; manifest {version} has {', '.join(kinds)}"
    if server.get("entry_point") not in names:
        yield f"server.entry_point {server.get('entry_point')!r} is not in the bundle"
    if server.get("type") == "uv" and "pyproject.toml" not in names:
        yield "a bundle of type uv needs a pyproject.toml with its dependencies"
    config = server.get("mcp_config")
    if not is_object(config) or not config.get("command"):
        yield "server.mcp_config.command is missing; it is needed for type uv too"
    elif is_object(config) and "cwd" in config:
        yield "server.mcp_config.cwd: no key of a manifest; pass the folder as ${__dirname}"


def _problems_of_config(manifest: JsonObject) -> Iterator[str]:
    declared = manifest.get("user_config")
    fields = declared if is_object(declared) else {}
    used = set(_USED.findall(json.dumps(manifest.get("server", {}))))
    yield from (
        f"${{user_config.{name}}} is not declared; it would stay as text" for name in sorted(used - set(fields))
    )
    yield from (f"user_config.{name} is used nowhere" for name in sorted(set(fields) - used))
    for name, setting in fields.items():
        if not is_object(setting) or setting.get("type") not in _CONFIG_TYPES:
            yield f"user_config.{name}.type is one of {', '.join(_CONFIG_TYPES)}"
        elif missing := [key for key in ("title", "description") if not setting.get(key)]:
            yield f"user_config.{name} needs {' and '.join(missing)}"


def _problems_of_compatibility(compatibility: JsonObject) -> Iterator[str]:
    platforms, runtimes = compatibility.get("platforms", []), compatibility.get("runtimes", {})
    for system in platforms if is_list(platforms) else []:
        if system not in _PLATFORMS:
            yield f"compatibility.platforms has {system!r}; there are {', '.join(_PLATFORMS)}"
    bounds = runtimes.get("python") if is_object(runtimes) else None
    if isinstance(bounds, str) and "," in bounds:
        yield f"{_RUNTIME} is {bounds!r}; a range has spaces and no commas: {semver(bounds)!r}"
