"""A project: its files, the version of the SDK that it was written for, and the changes of all, also of requirements,
container files and settings."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import libcst as cst

from ..errors import CodegenError, JsonObject, is_list, is_object
from ..paths import generator_version
from .names import Form, Goal, tables
from .report import Edited, Mark, files_below
from .source import SourceEdit, migrated

_MENTIONS: Final = re.compile(rb"\b(?:mcp|mcp_types|fastmcp)\b")
_IMPORTED: Final = re.compile(rb"(?m)^\s*(?:from|import)\s+(mcp|fastmcp)\b")
_V2_WORDS: Final = re.compile(
    rb"\bmcp\.server\.mcpserver\b|\bmcp_types\b|\bMCPServer\b|from mcp import [^\n]*\bClient\b|\bMCPError\b"
)
_V1_WORDS: Final = re.compile(rb"\bmcp\.server\.fastmcp\b|\bMcpError\b|\bstreamablehttp_client\b")
_NEWEST_OF_V1: Final = re.compile(r"<\s*2(?:\.0)*\b|(?:==|~=|\^|<=)\s*1\b")
_V2: Final = re.compile(r"(?:>=|==|~=|\^|>)\s*2\b")
# A release of 1.x before 1.10, which has no structured content.
_UNSTRUCTURED: Final = re.compile(
    r"(?m)\bmcp(?:\[[^\]]*\])?\"?\s*[=:]?\s*\"?(?:==\s*1\.\d\b|~=\s*1\.\d\.\d|[<>=~!^][^\"'\n#;]*<\s*1\.(?:\d|10)\b)"
)
_FASTMCP_2: Final = re.compile(r"(?m)\bfastmcp(?:\[[^\]]*\])?\"?\s*[=:]?\s*\"?(?:(?:>=|==|~=|\^|>)\s*2\b|<\s*3\b)")
_RETURNS: Final = re.compile(rb"(?m)^def (\w+)\((?:(?!^def )[\s\S])*?\)\s*->\s*[\"']?([\w.]+)")
_FASTMCP_OF_V2: Final = re.compile(r"(?:>=|==|~=|\^|>)\s*4\b")

_LOCKS: Final = {
    "uv.lock": "uv lock",
    "poetry.lock": "poetry lock",
    "pdm.lock": "pdm lock",
    "Pipfile.lock": "pipenv lock",
    "pixi.lock": "pixi lock",
}
_SETTINGS: Final = "fastmcp.json"
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?\s*([^;]*?)\s*(;.*)?")
_LINE: Final = re.compile(r"(\s*)([A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?[^#\n]*?)(\s*(?:#.*)?)")
_POETRY: Final = re.compile(r"\s*([\w.-]+)\s*=\s*(.+?)\s*")
_WORD: Final = re.compile(
    r"""(?<![\w./@-])(["']?)((?:mcp|fastmcp)(?:\[[^\]\s]*\])?(?:[<>=~!][^\s"'\\;&]*)?)\1(?=[\s\\;&]|$)"""
)
_INSTALLS: Final = re.compile(r"\b(?:install|add|--with|--from)\b")
_COMMAND: Final = re.compile(r"""["'\s](?:fastmcp|mcp)["',\s]+(?:run|dev|install|inspect)\b""")
_FILTER: Final = re.compile(r"\b(?:mcp|fastmcp)\.[a-z_]\w*(?:\.\w+)+\b")
_IMPORTS: Final = re.compile(rb"(?m)^\s*(?:from|import)\s+([A-Za-z_]\w*)")
_HTTP: Final = re.compile(rb"streamable|\bsse|http_app|[\"']http[\"']|StreamableHTTP|SSETransport|Client\([\"']http")
_COMMENT: Final = re.compile(rb"(?m)^\s*# mcp-generated: .*$")
_AUTH: Final = re.compile(
    rb"\b(?:AuthSettings|TokenVerifier|\w*OAuth\w*|get_access_token|StaticTokenVerifier|JWTVerifier)\b"
)


class Project:
    """The files below a folder, or one file."""

    def __init__(self, path: Path, goal: Goal) -> None:
        """Find the files. Raises CodegenError for a path that does not exist."""
        if not path.exists():
            raise CodegenError(f"{path}: does not exist; pass a file or the folder of a project")
        self.root = path if path.is_dir() else path.parent
        self.goal: Goal = goal
        files = sorted(files_below(path)) if path.is_dir() else [path]
        self.sources = [file for file in files if file.suffix in (".py", ".pyi")]
        self.others = [file for file in files if is_known(file)]
        self.form: Form = self._form()
        older = {"unstructured": _UNSTRUCTURED, "fastmcp_2": _FASTMCP_2}
        self._older = [name for name, old in older.items() if any(map(old.search, self._requirements()))]

    def edited(self) -> list[Edited]:
        """Return every file that was read, with its changes."""
        texts = {path: path.read_bytes() for path in self.sources}
        servers = self._servers(texts)
        sources = [self._source(path, data, servers) for path, data in texts.items()]
        needs = requirements_of(texts.values(), sources)
        return [*sources, *(edited_file(path, self.goal, needs) for path in self.others)]

    def _requirements(self) -> list[str]:
        """Return the texts of the files with requirements, without those of lock files."""
        named = [path for path in self.others if path.suffix in (".toml", ".txt", ".cfg")]
        return [path.read_text(encoding="utf-8", errors="replace") for path in named]

    def _form(self) -> Form:
        """Return the major version of the SDK by the requirements, and else by the names that are used."""
        for text in self._requirements():
            for name, bounds in re.findall(
                r"(?m)\b(mcp|fastmcp)(?:\[[^\]]*\])?\"?\s*[=:]?\s*\"?([<>=~!^][^\"'\n#;]*)", text
            ):
                if name == "mcp" and _NEWEST_OF_V1.search(bounds):
                    return "v1"
                if _V2.search(bounds) if name == "mcp" else _FASTMCP_OF_V2.search(bounds):
                    return "v2"
        texts = [path.read_bytes() for path in self.sources]
        if any(map(_V1_WORDS.search, texts)):
            return "v1"
        return "v2" if any(map(_V2_WORDS.search, texts)) else "v1"

    def _servers(self, texts: Mapping[Path, bytes]) -> dict[str, Mapping[str, str]]:
        """Return the kinds of the variables of modules, by the last part of their name: tests import servers."""
        named = {path: path.parent.name if path.stem == "__init__" else path.stem for path in texts}
        return {named[path]: _assigned(data) for path, data in texts.items() if _MENTIONS.search(data)}

    def _source(self, path: Path, data: bytes, servers: Mapping[str, Mapping[str, str]]) -> Edited:
        edited = Edited(path, data, data)
        if not _MENTIONS.search(data):
            return edited
        known: dict[str, str] = {}
        for module, names in re.findall(rb"(?m)^\s*from\s+([\w.]+)\s+import\s+\(?([^\n)]*)", data):
            kinds = servers.get(module.decode().rpartition(".")[2], {})
            words = re.findall(r"\w+", names.decode("utf-8", "replace"))
            known |= {name: kinds[name] for word in words for name in (word, f"{word}()") if name in kinds}
        try:
            after, changes = migrated(
                data, lambda wrapper: SourceEdit(wrapper, tables(), self.form, self.goal, known, self._older)
            )
        except cst.ParserSyntaxError as error:
            edited.error = (
                f"line {error.raw_line}: it is not Python that this version reads: {error.message.splitlines()[0]}"
            )
        except (UnicodeError, LookupError, SyntaxError) as error:
            edited.error = f"its encoding cannot be read: {error}"
        except RecursionError:
            edited.error = "its expressions are nested too deeply"
        else:
            edited.after = after
            edited.changes = Counter({kind: number for kind, number in changes.changes.items() if number})
            edited.marks = changes.marks
        return edited


def _assigned(data: bytes) -> dict[str, str]:
    """Return the kinds of the variables that a module assigns at its top, by the names of the classes.

    What a function returns by its annotation has the name of the function with parentheses.
    """
    packages = b"|".join(sorted(set(_IMPORTED.findall(data)))).decode()
    kinds = {
        path.rpartition(".")[2]: kind
        for path, kind in tables().kinds.items()
        if re.match(rf"(?:{packages})\.", path)  # `FastMCP` is a name of two packages.
    }
    found: dict[str, str] = {}
    for name, called in re.findall(rb"(?m)^(\w+)(?:\s*:[^=\n]*)?\s*=\s*([A-Za-z_][\w.]*)\(", data):
        if kind := kinds.get(called.decode().rpartition(".")[2]):
            found[name.decode()] = kind
    for name, returned in _RETURNS.findall(data):
        if kind := kinds.get(returned.decode().rpartition(".")[2]):
            found[f"{name.decode()}()"] = kind
    return found


# Files beside the source: requirements, container files, settings of FastMCP and lock files.
#
# They are edited as text, so that their layout and comments stay. What is a requirement is known from the parsed
# document.


@dataclass(frozen=True, slots=True)
class Needs:
    """What a program needs after its migration: our extras, the originals that it still imports, and all modules that
    it imports."""

    extras: tuple[str, ...]
    kept: frozenset[str]
    imported: frozenset[str]

    def requirement(self, extras: Iterable[str] = ()) -> str:
        """Return the requirement without quotes."""
        return f"mcp-generated[{','.join(sorted({*self.extras, *extras}))}]{bounds()}"


def bounds() -> str:
    """Return the versions that a program is moved to: this one, up to the next minor version."""
    version = generator_version()
    major, minor = version.split(".")[:2]
    return f">={version},<{major}.{int(minor) + 1}"


def requirements_of(texts: Iterable[bytes], sources: Sequence[Edited]) -> Needs:
    """Return what the sources of a project need after their migration."""
    after = _COMMENT.sub(b"", b"\n".join(file.after for file in sources))
    imported = frozenset(match[1].decode() for match in _IMPORTS.finditer(after))
    uses_compat = b"mcp_generated.compat" in after or b"mcp_products.compat" in after or b"import compat" in after
    extras = ["app", *(["compat"] if uses_compat else [])]
    if _HTTP.search(after):
        extras.append("http")
    if _AUTH.search(after):
        extras.append("auth")
    kept = imported & {"mcp", "mcp_types", "fastmcp"}
    return Needs(tuple(sorted(extras)), frozenset(kept), imported)


def is_known(path: Path) -> bool:
    """Return True for a file that is edited, or that gets a mark, besides the source."""
    name = path.name
    return (
        name in _LOCKS
        or name in ("pyproject.toml", "setup.cfg", _SETTINGS)
        or (path.suffix == ".txt" and "requirements" in name)
        or (path.suffix == ".in" and "requirements" in name)
        or name in ("Dockerfile", "Containerfile")
        or name.startswith("Dockerfile.")
        or path.suffix == ".dockerfile"
    )


def edited_file(path: Path, goal: Goal, needs: Needs) -> Edited:
    """Return a file with its changes; one that cannot be read has an error."""
    data = path.read_bytes()
    edited = Edited(path, data, data)
    try:
        text = data.decode("utf-8")
        if path.name in _LOCKS:
            _lock(edited, text)
        elif path.name == _SETTINGS:
            _settings(edited, text, needs)
        else:
            lines = _Lines(edited, text, needs)
            if path.name == "pyproject.toml":
                lines.project(tomllib.loads(text))
            elif "ockerfile" in path.name or path.name == "Containerfile":
                lines.container()
            else:
                lines.requirements()
            edited.after = lines.text.encode("utf-8")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        edited.after = data
        edited.error = f"cannot be read: {error}"
        edited.changes.clear()
        edited.marks.clear()
    return edited


def _lock(edited: Edited, text: str) -> None:
    if re.search(r"""["'](?:mcp|fastmcp|mcp-types)["']""", text):
        command = _LOCKS[edited.path.name]
        edited.marks.append(Mark(1, f"make it anew: {command}", "lock-files"))


def _settings(edited: Edited, text: str, needs: Needs) -> None:
    """Edit the requirements of a fastmcp.json; its command has another one here."""
    document: Any = json.loads(text)
    environment: Any = document.get("environment") if is_object(document) else None
    listed: Any = environment.get("dependencies") if is_object(environment) else None
    for item in listed if is_list(listed) else ():
        if isinstance(item, str) and (new := _replacement(item, needs)):
            text = text.replace(json.dumps(item), json.dumps(new))
            edited.changes["requirement"] += 1
    edited.after = text.encode()
    source: Any = document.get("source") if is_object(document) else None
    path = source.get("path", "server.py") if is_object(source) else "server.py"
    name = source.get("entrypoint", "") if is_object(source) else ""
    command = f"mcp-generated run {path}{':' + name if name else ''}"
    edited.marks.append(Mark(1, f"nothing reads this file any more: write {command}", "commands"))


def _replacement(requirement: str, needs: Needs) -> str | None:
    """Return the requirement that stands in the place of one of an original; None for any other one."""
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if match is None or _normal(match[1]) not in tables().requirements["originals"]:
        return None
    extras = ["cli"] if match[2] and "cli" in match[2].split(",") else []
    return needs.requirement(extras) + (match[4] or "")


def _name(requirement: str) -> str:
    match = _REQUIREMENT.fullmatch(requirement.strip())
    return "" if match is None else _normal(match[1])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class _Lines:
    """The lines of a text file with comments."""

    def __init__(self, edited: Edited, text: str, needs: Needs) -> None:
        self._edited = edited
        self._needs = needs
        self._lines = text.splitlines(keepends=True)
        self._end = "\r\n" if "\r\n" in text else "\n"
        self._above: dict[int, list[str]] = {}

    @property
    def text(self) -> str:
        """The lines with their marks."""
        parts: list[str] = []
        for index, line in enumerate(self._lines):
            indent = line[: len(line) - len(line.lstrip())]
            before = self._lines[index - 1].strip() if index else ""
            parts += [f"{indent}{comment}{self._end}" for comment in self._above.get(index, ()) if comment != before]
            parts.append(line)
        return "".join(parts)

    def mark(self, index: int, reason: str, link: str) -> None:
        """Mark a line."""
        mark = Mark(index + 1, reason, link)
        if mark.comment not in self._above.get(index, ()):
            self._edited.marks.append(mark)
            self._above.setdefault(index, []).append(mark.comment)

    # ---- pyproject.toml -------------------------------------------------------------------------------------------

    def project(self, document: JsonObject) -> None:
        """Edit the requirements of a pyproject.toml, and mark what contradicts ours."""
        listed = list(_listed(document))
        originals = [item for item in listed if _replacement(item, self._needs)]
        for item in dict.fromkeys(originals):
            self._replace(item)
        in_poetry = self._poetry()
        if originals or in_poetry:
            self._brought([_name(item) for item in listed])
        if originals or in_poetry or any("mcp-generated" in item for item in listed):
            self._contradictions(listed, document)
        for index, line in enumerate(self._lines):
            for path in _FILTER.findall(line):
                self._module(index, path)

    def _replace(self, item: str) -> None:
        new = _replacement(item, self._needs)
        assert new is not None, "a requirement of an original"
        root = _name(item).replace("-", "_")
        for index, line in enumerate(self._lines):
            for quote in "\"'":
                literal = f"{quote}{item}{quote}"
                if literal not in line:
                    continue
                written = new.replace(quote, "'" if quote == '"' else '"')
                if self._is_kept(root, index):
                    indent = line[: len(line) - len(line.lstrip())]
                    alone = line.strip() in (literal, f"{literal},")
                    added = f"{quote}{written}{quote}"
                    if "mcp-generated[" in "".join(self._lines):
                        continue
                    self._lines[index] = (
                        f"{indent}{added},{self._end}{line}" if alone else line.replace(literal, f"{added}, {literal}")
                    )
                elif f"{quote}{written}{quote}" in "".join(self._lines) and line.strip() in (literal, f"{literal},"):
                    self._lines[index] = ""  # Two originals become one requirement.
                else:
                    self._lines[index] = line.replace(literal, f"{quote}{written}{quote}")
                self._edited.changes["requirement"] += 1

    def _is_kept(self, root: str, index: int) -> bool:
        if root not in self._needs.kept:
            return False
        self.mark(
            index, f"{root} is still imported where a mark says so; it can go with the last one", "no-counterpart"
        )
        return True

    def _poetry(self) -> bool:
        """Edit the tables of poetry, whose requirements are keys."""
        section, found = "", False
        for index, line in enumerate(self._lines):
            if line.lstrip().startswith("["):
                section = line.strip().strip("[]")
                continue
            match = _POETRY.fullmatch(line.rstrip("\r\n"))
            if match is None:
                continue
            name = _normal(match[1])
            if (
                section.startswith("tool.poetry")
                and section.endswith("dependencies")
                and name in tables().requirements["originals"]
            ):
                found = True
                if self._is_kept(name.replace("-", "_"), index):
                    continue
                self._lines[index] = line.replace(match[0].strip(), self._poetry_row("cli" in match[2]))
                self._edited.changes["requirement"] += 1
            elif section == "tool.uv.sources" and name in tables().requirements["originals"]:
                self.mark(index, "this source is that of a package that is no longer required", "requirements")
        return found

    def _poetry_row(self, has_cli: bool) -> str:
        extras = ", ".join(f'"{extra}"' for extra in sorted({*self._needs.extras, *(["cli"] if has_cli else [])}))
        return f'mcp-generated = {{ version = "{bounds()}", extras = [{extras}] }}'

    def _brought(self, names: Sequence[str]) -> None:
        """Mark packages that the source imports, and that came with an original."""
        missing = [
            package
            for module, package in tables().requirements["brought"].items()
            if module in self._needs.imported and _normal(package) not in names
        ]
        index = next(
            (
                index
                for index, line in enumerate(self._lines)
                if "mcp-generated" in line and not line.lstrip().startswith("#")
            ),
            0,
        )
        for package in missing:
            self.mark(
                index, f"{package} is imported here and came with the SDK: add it to the requirements", "requirements"
            )

    def _contradictions(self, listed: Sequence[str], document: JsonObject) -> None:
        for item in listed:
            match = _REQUIREMENT.fullmatch(item.strip())
            least = tables().requirements["least"].get(_normal(match[1])) if match is not None else None
            if match is not None and least is not None and _excludes(match[3], least):
                self._mark_text(item, f"mcp-generated needs {match[1]}>={least}", "requirements")
        least = tables().requirements["python"]
        project: Any = document.get("project")
        bound = project.get("requires-python") if is_object(project) else None
        if isinstance(bound, str) and _begins_below(bound, least):
            self._mark_text(bound, f"mcp-generated needs Python {least} or later", "requirements")

    def _mark_text(self, text: str, reason: str, link: str) -> None:
        for index, line in enumerate(self._lines):
            if f'"{text}"' in line or f"'{text}'" in line:
                self.mark(index, reason, link)

    def _module(self, index: int, path: str) -> None:
        """Replace the path of a name in a setting, such as a filter of warnings."""
        module, rest = tables().split(path)
        name = rest.partition(".")[0]
        if not module or not name or self._lines[index].lstrip().startswith("#"):
            return
        place = tables().place("v2", module, name)
        if place is None:
            self.mark(index, f"{path} has no counterpart", "no-counterpart")
            return
        self._lines[index] = self._lines[index].replace(path, place.path)
        self._edited.changes["string"] += 1

    # ---- files of lines ---------------------------------------------------------------------------------------------

    def requirements(self) -> None:
        """Edit a file with one requirement a line."""
        for index, line in enumerate(self._lines):
            match = _LINE.fullmatch(line.rstrip("\r\n"))
            if match is None or (new := _replacement(match[2], self._needs)) is None:
                continue
            root = _name(match[2]).replace("-", "_")
            if self._is_kept(root, index):
                continue
            if "--hash" in line or line.rstrip().endswith("\\"):
                self.mark(index, f"make this file anew with {new}", "lock-files")
                continue
            end = line[len(line.rstrip("\r\n")) :]
            self._lines[index] = f"{match[1]}{new}{match[3]}{end}"
            self._edited.changes["requirement"] += 1

    def container(self) -> None:
        """Edit what a container file installs, and mark commands of the SDK."""
        is_install = continues = False
        for index, line in enumerate(self._lines):
            if line.lstrip().startswith("#"):
                continue
            is_install = (is_install and continues) or _INSTALLS.search(line) is not None
            continues = line.rstrip().endswith("\\")
            if is_install:
                new = _WORD.sub(lambda match: f'"{_replacement(match[2], self._needs) or match[2]}"', line)
                self._edited.changes["requirement"] += new != line
                self._lines[index] = new
            if _COMMAND.search(line):
                self.mark(index, "this command is one of the SDK: write mcp-generated run server.py", "commands")
            version = re.match(r"\s*FROM\s+\S*python:?3\.(\d+)", line)
            if version is not None and int(version[1]) < int(tables().requirements["python"].split(".")[1]):
                self.mark(
                    index, f"mcp-generated needs Python {tables().requirements['python']} or later", "requirements"
                )


def _listed(document: JsonObject) -> Iterator[str]:
    """Yield the requirements of a pyproject.toml that are texts."""
    tool: Any = document.get("tool", {})
    project: Any = document.get("project", {})
    uv: Any = tool.get("uv", {})
    groups = [
        project.get("dependencies", []),
        *project.get("optional-dependencies", {}).values(),
        *document.get("dependency-groups", {}).values(),
        uv.get("dev-dependencies", []),
        *(
            env.get(key, [])
            for env in tool.get("hatch", {}).get("envs", {}).values()
            for key in ("dependencies", "extra-dependencies")
        ),
        *tool.get("pdm", {}).get("dev-dependencies", {}).values(),
    ]
    for group in groups:
        yield from (item for item in group if isinstance(item, str))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _excludes(specifier: str, least: str) -> bool:
    """Return True if no version from a least one on satisfies a specifier."""
    for operator, version in re.findall(r"(==|<=|<|~=)\s*([\d.]+)", specifier):
        limit, bound = _numbers(version), _numbers(least)
        if operator == "~=":
            limit = _next(limit)
            operator = "<"
        if limit < bound or (operator == "<" and limit <= bound):
            return True
    return False


def _next(version: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first version that `~=` excludes: that after 1.4.2 is 1.5."""
    kept = list(version[:-1] or version)
    kept[-1] += 1
    return tuple(kept)


def _begins_below(specifier: str, least: str) -> bool:
    match = re.search(r"(?:>=|>|~=|==)\s*(\d+\.\d+)", specifier)
    return match is not None and _numbers(match[1]) < _numbers(least)
