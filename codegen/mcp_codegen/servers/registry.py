"""The file `server.json` of the MCP registry: from a project and its running server, what the registry would refuse of
it, and where it has drifted from them.

The form is that of the schema that schema/registry.toml names. Nothing is uploaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ..errors import CodegenError, JsonObject, is_list, is_object
from ..paths import data_path, read_toml
from .bundle import is_secret

SCHEMA: Final[str] = read_toml(data_path("schema") / "registry.toml")["schema"]
_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_MAX_NAME: Final = 200
_MAX_TEXT: Final = 100  # Characters of a description, and of a title.
_MAX_VERSION: Final = 255
_MAX_META: Final = 4096  # Bytes.
_EXACT: Final = re.compile(r"\d+(\.\d+)*([-+.]?[A-Za-z0-9.+-]+)?")
_SHA256: Final = re.compile(r"[a-f0-9]{64}")
_OWNER: Final = r"mcp-name:\s*([A-Za-z0-9.-]+/[A-Za-z0-9._-]+)"
_HOSTS: Final = {"github.com": "github", "gitlab.com": "gitlab"}
_PUBLISHER: Final = "io.modelcontextprotocol.registry/publisher-provided"
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_README: Final = 'readme = "README.md"'
# The keys of each object; the registry refuses others.
_KEYS: Final = {
    "": "$schema name title description version websiteUrl repository icons packages remotes _meta",
    "repository": "url source id subfolder",
    "packages": "registryType registryBaseUrl identifier version fileSha256 runtimeHint transport runtimeArguments "
    "packageArguments environmentVariables",
    "remotes": "type url headers variables",
}
_NEEDED: Final = {
    "": ("$schema", "name", "description", "version"),
    "repository": ("url", "source"),
    "packages": ("registryType", "identifier", "transport"),
    "remotes": ("type", "url"),
}
_REGISTRIES: Final = ("npm", "pypi", "oci", "nuget", "mcpb")
_TRANSPORTS: Final = ("stdio", "streamable-http", "sse")
_DRIFT: Final = ("$schema", "name", "title", "description", "version", "repository")


@dataclass(frozen=True, slots=True)
class Project:
    """What a project and its running server say: the table `project` of pyproject.toml, the identity of the server, the
    text of the README that a release has (None without one), the variables that the source reads with their defaults,
    and package.json. Without pyproject.toml, `table` has what package.json says."""

    table: JsonObject
    server: JsonObject
    readme: str | None
    variables: Mapping[str, str | None]
    npm: JsonObject = field(default_factory=dict[str, Any])
    is_python: bool = True

    def version(self) -> str:
        """Return the version of the project, or of the server where the project computes it."""
        return str(self.table.get("version") or self.server.get("version") or "")


# ---- the document ----------------------------------------------------------------------------------------------------


def document_of(project: Project, name: str, remotes: tuple[str, ...] = ()) -> JsonObject:
    """Return `server.json` of a project that is released on PyPI, on npm or on both, without what its author adds."""
    document: dict[str, Any] = {"$schema": SCHEMA, "name": name}
    title = str(project.server.get("title") or "")
    document |= {"title": title} if 0 < len(title) <= _MAX_TEXT else {}
    document |= {"description": str(project.table.get("description") or ""), "version": project.version()}
    repository, website = _addresses(project.table)
    document |= {"repository": repository} if repository else {}
    document |= {"websiteUrl": website} if website else {}
    kinds = [("pypi", "uvx", project.table)] if project.is_python else []
    kinds += [("npm", "npx", project.npm)] if project.npm else []
    variables = [_variable(*row) for row in project.variables.items()]
    document["packages"] = [
        {
            "registryType": kind,
            "identifier": str(table.get("name") or ""),
            "version": project.version(),
            "runtimeHint": hint,
            "transport": {"type": "stdio"},
            **({"environmentVariables": variables} if variables else {}),
        }
        for kind, hint, table in kinds
    ]
    document |= {"remotes": [{"type": "streamable-http", "url": url} for url in remotes]} if remotes else {}
    return document


def name_of(project: Project, stored: JsonObject | None, name: str | None) -> str:
    """Return the name in the registry: the one that is passed, that of server.json, of the README's line or of
    package.json, or one made of a repository on GitHub. Raises CodegenError if nothing says it."""
    line = re.search(_OWNER, project.readme or "")
    repository, _ = _addresses(project.table)
    owner = urlsplit(str(repository.get("url", ""))).path.strip("/").partition("/")[0]
    server = str(project.table.get("name")).rpartition("/")[2]  # Without the scope of npm.
    of_github = f"io.github.{owner}/{server}" if repository.get("source") == "github" else ""
    found = name or (stored or {}).get("name") or (line[1] if line else "")
    found = found or project.npm.get("mcpName") or of_github
    if not found:
        raise CodegenError(
            "pyproject.toml: nothing says the name in the registry; pass --name io.github.USER/SERVER, or one of your "
            "domain such as com.example/SERVER"
        )
    return str(found)


def merged(stored: JsonObject | None, made: JsonObject) -> JsonObject:
    """Return what is stored, with what the project and the server say; everything else that an author has added stays.

    A description that the project has too long for the registry is the author's, as are arguments and remotes.
    """
    if stored is None:
        return made
    document = {**stored, **made}
    if _is_text(stored.get("description")) and not _is_text(made["description"]):
        document["description"] = stored["description"]
    packages = _objects(stored.get("packages"))
    for package in made["packages"]:
        is_new = not any(_same(old, package) for old in packages)
        packages = [_with(old, package) if _same(old, package) else old for old in packages] + [package] * is_new
    document["packages"] = [
        item if item.get("registryType") == "oci" or "version" not in item else {**item, "version": made["version"]}
        for item in packages
    ]
    if "remotes" in stored and "remotes" in made:
        known = {remote.get("url") for remote in _objects(stored["remotes"])}
        document["remotes"] = [*stored["remotes"], *(item for item in made["remotes"] if item["url"] not in known)]
    return document


def _same(one: JsonObject, two: JsonObject) -> bool:
    return (one.get("registryType"), one.get("identifier")) == (two["registryType"], two["identifier"])


def _with(old: JsonObject, made: JsonObject) -> JsonObject:
    known = {item.get("name") for item in _objects(old.get("environmentVariables"))}
    new = [item for item in made.get("environmentVariables", []) if item["name"] not in known]
    variables = [*_objects(old.get("environmentVariables")), *new]
    return {**made, **old, **({"environmentVariables": variables} if variables else {}), "version": made["version"]}


def _variable(name: str, default: str | None) -> JsonObject:
    hidden = is_secret(name)
    row: dict[str, Any] = {"name": name, "description": f"The variable {name}.", "isRequired": default is None}
    row |= {"isSecret": True} if hidden else {}
    return row | ({"default": default} if default and not hidden else {})


def _addresses(project: JsonObject) -> tuple[JsonObject, str]:
    """Return the repository and the website among the URLs of a project."""
    urls = project.get("urls")
    listed = [str(url) for url in urls.values()] if is_object(urls) else []
    repository: JsonObject = {}
    website = ""
    for url in listed:
        parts = urlsplit(url)
        words = parts.path.strip("/").removesuffix(".git").split("/")
        if parts.hostname in _HOSTS and len(words) >= 2:
            place = f"https://{parts.hostname}/{words[0]}/{words[1]}"
            repository = repository or {"url": place, "source": _HOSTS[parts.hostname]}
        elif parts.scheme == "https":
            website = website or url
    return repository, website


# ---- what the registry refuses ---------------------------------------------------------------------------------------


def problems_of(document: JsonObject) -> Iterator[str]:
    """Yield what the registry refuses of a server.json: the place, the rule, and what to write."""
    yield from _keys(document, "", "")
    name = str(document.get("name") or "")
    if not _NAME.fullmatch(name) or not 3 <= len(name) <= _MAX_NAME:
        yield f"name {name!r}: is NAMESPACE/SERVER with one slash, such as io.github.USER/SERVER; pass --name"
    for key in ("description", "title"):
        if key in document and not _is_text(document[key]):
            size = len(str(document[key] or ""))
            remedy = f"shorten it by {size - _MAX_TEXT}" if size else "say what the server does"
            yield f"{key} has {size} characters, and the registry takes 1 to {_MAX_TEXT}; {remedy}"
    if document.get("$schema") != SCHEMA:
        yield f"$schema is {document.get('$schema')!r}, and the registry wants {SCHEMA}; publish --write sets it"
    yield from _version(document.get("version"), "version")
    repository = document.get("repository")
    if is_object(repository):
        yield from _keys(repository, "repository", "repository.")
    for number, package in enumerate(_objects(document.get("packages"))):
        yield from _package(package, f"packages.{number}.")
    for number, remote in enumerate(_objects(document.get("remotes"))):
        yield from _remote(remote, f"remotes.{number}.")
    meta = document.get("_meta")
    if is_object(meta):
        yield from (
            f"_meta.{key}: the registry keeps {_PUBLISHER} only; move it there" for key in meta if key != _PUBLISHER
        )
        if (size := len(json.dumps(meta))) > _MAX_META:
            yield f"_meta has {size:,} bytes, and the registry keeps {_MAX_META:,}; shorten it"


def _keys(value: JsonObject, kind: str, place: str) -> Iterator[str]:
    known = _KEYS[kind].split()
    yield from (
        f"{place}{key}: no key of server.json; its keys are {', '.join(known)}" for key in value if key not in known
    )
    yield from (f"{place}{key} is missing; publish --write adds it" for key in _NEEDED[kind] if value.get(key) is None)


def _version(value: object, place: str) -> Iterator[str]:
    text = str(value or "")
    if not _EXACT.fullmatch(text) or len(text) > _MAX_VERSION:
        yield f'{place} is {text!r}, and the registry takes one exact version; write "1.0.0"'


def _package(package: JsonObject, place: str) -> Iterator[str]:
    yield from _keys(package, "packages", place)
    kind, identifier = package.get("registryType"), str(package.get("identifier") or "")
    if kind not in _REGISTRIES:
        yield f"{place}registryType is {kind!r}; there are {', '.join(_REGISTRIES)}"
    if kind != "oci":
        yield from _version(package.get("version"), f"{place}version")
    if kind == "mcpb":
        if not _SHA256.fullmatch(str(package.get("fileSha256") or "")):
            yield f"{place}fileSha256: a bundle needs its SHA-256, 64 hex digits; write what sha256sum says"
        if urlsplit(identifier).hostname not in _HOSTS:
            yield f"{place}identifier {identifier!r}: a bundle is a release on GitHub or GitLab; write its https URL"
    transport = package.get("transport")
    kind_of = transport.get("type") if is_object(transport) else None
    if kind_of not in _TRANSPORTS:
        yield f"{place}transport.type is {kind_of!r}; there are {', '.join(_TRANSPORTS)}"
    if package.get("runtimeArguments") and not package.get("runtimeHint"):
        yield f'{place}runtimeHint is missing beside runtimeArguments; write "uvx"'


def _remote(remote: JsonObject, place: str) -> Iterator[str]:
    yield from _keys(remote, "remotes", place)
    parts = urlsplit(str(remote.get("url") or ""))
    if remote.get("type") not in _TRANSPORTS[1:]:
        yield f"{place}type is {remote.get('type')!r}; there are {', '.join(_TRANSPORTS[1:])}"
    if parts.scheme != "https" or parts.hostname in _LOCAL:
        yield f"{place}url {remote.get('url')!r}: others cannot reach it; write the public https URL of the endpoint"


# ---- what has drifted ------------------------------------------------------------------------------------------------


def drift_of(stored: JsonObject, wanted: JsonObject) -> Iterator[str]:
    """Yield where a stored server.json differs from what the project and its server say now."""
    for key in _DRIFT:
        if key in wanted and stored.get(key) != wanted[key]:
            values = f"{_short(stored.get(key))}, and the project says {_short(wanted[key])}"
            yield f"{key} is {values}; publish --write sets it"
    old = {(item.get("registryType"), item.get("identifier")): item for item in _objects(stored.get("packages"))}
    for item in _objects(wanted.get("packages")):
        mark = (item.get("registryType"), item.get("identifier"))
        place = f"the package {mark[1]} ({mark[0]})"
        if mark not in old:
            yield f"{place} is not in server.json; publish --write adds it"
            continue
        if old[mark].get("version") != item.get("version"):
            versions = f"{old[mark].get('version')!r}, and the project's is {item.get('version')!r}"
            yield f"{place} has the version {versions}; publish --write sets it"
        known = {row.get("name") for row in _objects(old[mark].get("environmentVariables"))}
        missing = [row["name"] for row in _objects(item.get("environmentVariables")) if row.get("name") not in known]
        if missing:
            yield f"{place} does not declare {', '.join(missing)}, which the source reads; publish --write adds it"


def project_problems(project: Project, document: JsonObject) -> Iterator[str]:
    """Yield what stands in the way of a release elsewhere: versions that differ, a README without the line that proves
    who owns the name, a script that `uvx` does not find, variables that nobody reads."""
    name, table = str(document.get("name") or ""), project.table
    version, of_server = project.version(), str(project.server.get("version") or "")
    if of_server and of_server != version:
        yield f"the running server says version {of_server!r}, and pyproject.toml {version!r}; make them one"
    if project.npm:
        yield from _npm_problems(project, name)
    if not project.is_python:
        return
    if project.readme is None:
        yield f"pyproject.toml names no readme, so the release has no line mcp-name: {name}; add {_README}"
    elif name not in re.findall(_OWNER, project.readme):
        yield (
            f"the README has no line mcp-name: {name}, by which the registry knows who owns the name; add "
            f"<!-- mcp-name: {name} --> before the release, which cannot be changed afterwards"
        )
    scripts, identifier = table.get("scripts"), str(table.get("name") or "")
    known = sorted(scripts) if is_object(scripts) else []
    package = next((item for item in _objects(document.get("packages")) if item.get("identifier") == identifier), None)
    if package is not None and identifier not in known and not package.get("runtimeArguments"):
        yield (
            f"[project.scripts] has {', '.join(known) or 'nothing'}, and a host starts uvx {identifier}; add "
            f'{identifier} = "PACKAGE.server:main"'
        )
    declared = [str(row.get("name")) for row in _objects((package or {}).get("environmentVariables"))]
    if unread := [variable for variable in declared if variable not in project.variables]:
        yield f"{', '.join(unread)}: declared, and the source does not read it; remove it, or correct its name"


def _npm_problems(project: Project, name: str) -> Iterator[str]:
    if (told := project.npm.get("version")) != project.version():
        yield f"package.json says version {told!r}, and the project {project.version()!r}; make them one"
    if project.npm.get("mcpName") != name:
        yield f'package.json has no "mcpName": "{name}", by which the registry knows who owns the name; add it'
    if not project.npm.get("bin"):
        yield f'package.json has no bin, and a host starts npx {project.npm.get("name")}; add "bin": "dist/index.js"'


def table_of_npm(npm: JsonObject) -> JsonObject:
    """Return what package.json says, as the table `project` has it."""
    places = (npm.get("repository"), npm.get("homepage"))
    urls = [str(place.get("url") or "") if is_object(place) else str(place or "") for place in places]
    kept: dict[str, Any] = {key: npm[key] for key in ("name", "version", "description") if key in npm}
    return {**kept, "urls": {str(number): url.removeprefix("git+") for number, url in enumerate(urls) if url}}


def with_owner(readme: str, name: str) -> str:
    """Return a README with the line that proves who owns the name."""
    if name in re.findall(_OWNER, readme):
        return readme
    return f"{readme.rstrip()}\n\n<!-- mcp-name: {name} -->\n"


def read_stored(path: Path) -> JsonObject | None:
    """Return a server.json, None if there is no such file. Raises CodegenError if it is not an object."""
    if not path.is_file():
        return None
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CodegenError(f"{path}: cannot be read as JSON: {error}") from None
    if not is_object(document):
        raise CodegenError(f"{path}: must be a JSON object; move it away, and publish --write makes it anew")
    return document


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_TEXT


def _objects(value: object) -> list[JsonObject]:
    return [item for item in value if is_object(item)] if is_list(value) else []


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
