"""A project: its files, the version of the SDK that it was written for, and the changes of all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import libcst as cst

from ..errors import CodegenError
from .files import files_below
from .report import Edited
from .requirements import edited_file, is_known, requirements_of
from .source import SourceEdit, migrated
from .tables import Form, Goal, tables

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
                data,
                lambda wrapper: SourceEdit(wrapper, tables(), self.form, self.goal, known, self._older),
            )
        except cst.ParserSyntaxError as error:
            edited.error = (
                f"line {error.raw_line}: it is no Python that this version reads: {error.message.splitlines()[0]}"
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
