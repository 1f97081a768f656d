"""A bundle (.mcpb): its manifest from the server itself, what goes into it, and rules stricter than its schema."""

from __future__ import annotations

import ast
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ..errors import CodegenError, JsonObject, is_list, is_object
from .forms import Form, semver

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
        raise CodegenError(f"{path}: is no bundle with a manifest.json: {error}") from None
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
        yield f"version {manifest.get('version')!r} is no version; write 1.0.0"
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
    for name, field in fields.items():
        if not is_object(field) or field.get("type") not in _CONFIG_TYPES:
            yield f"user_config.{name}.type is one of {', '.join(_CONFIG_TYPES)}"
        elif missing := [key for key in ("title", "description") if not field.get(key)]:
            yield f"user_config.{name} needs {' and '.join(missing)}"


def _problems_of_compatibility(compatibility: JsonObject) -> Iterator[str]:
    platforms, runtimes = compatibility.get("platforms", []), compatibility.get("runtimes", {})
    for platform in platforms if is_list(platforms) else []:
        if platform not in _PLATFORMS:
            yield f"compatibility.platforms has {platform!r}; there are {', '.join(_PLATFORMS)}"
    bounds = runtimes.get("python") if is_object(runtimes) else None
    if isinstance(bounds, str) and "," in bounds:
        yield f"{_RUNTIME} is {bounds!r}; a range has spaces and no commas: {semver(bounds)!r}"
