"""Writes the packages `mcp`, `mcp_types` and `fastmcp`: modules that give the names of `compat` their original places.

A table `modules.toml` has a row for each module, with the names it has and where they come from:

* `types`: types of the form of the table, those of `mcp_generated.compat.types_v1` or `types_v2`;
* `compat`: names of `mcp_generated.compat`;
* `from`: other modules, each with its names, or with `Name=Other` for a name that another has there;
* `absent`: names without a counterpart: each is a class that raises where it is used, and says what to write instead if
  `migrate` has a line for it;
* `text`: lines of Python;
* `file`: the file of the module in the folder `own`, for what only a program with the original names needs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_WHAT: Final = "by the names of mcp-generated; this is not the original package"
_CHECK: Final = """\
from mcp_products.compat.forms.absent import refuse_originals as _refuse_originals
from mcp_products.compat.forms.form import FORM as _FORM
_refuse_originals({package!r})
_FORM.choose({form!r})
"""


_MAIN: Final = """\
\"\"\"Print what this package is.\"\"\"

import sys
from importlib.metadata import version
import mcp

def main() -> None:
    if sys.argv[1:] not in ([], ["version"], ["--version"]):
        sys.exit(f"mcp: {' '.join(sys.argv[1:])!r} is not here: write mcp --version, or mcp-codegen --help")
    print(mcp.__doc__, version("mcp"))

if __name__ == "__main__":
    main()
"""


_RULES: Final = Path(__file__).parents[2] / "codegen" / "mcp_codegen" / "migrate" / "rules.toml"
_ABSENT: Final = tomllib.loads(_RULES.read_text(encoding="utf-8"))["rules"]["absent"]
_REMEDIES: Final = {name: rule["reason"] for rule in _ABSENT for name in rule["name"].split()}
"""What to write instead of names without a counterpart, as `mcp-generated migrate` says it."""


def read_table(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a table by the names of their modules."""
    return tomllib.loads((folder / "modules.toml").read_text(encoding="utf-8"))


def rendered(table: Mapping[str, Mapping[str, Any]], form: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each module of the packages."""
    rows = dict(table)
    for name in table:  # Packages whose modules have rows, and that have none themselves.
        parts = name.split(".")
        rows |= {".".join(parts[:end]): {} for end in range(1, len(parts)) if ".".join(parts[:end]) not in rows}
    for name, row in sorted(rows.items()):
        is_package = any(other.startswith(f"{name}.") for other in rows)
        path = name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
        if "file" in row:
            yield path, (Path(__file__).parent / form / "own" / row["file"]).read_text(encoding="utf-8")
            continue
        yield path, "\n".join(_lines(name, row, form, is_package, rows)) + "\n"
    for package in {name.partition(".")[0] for name in rows}:
        yield f"{package}/py.typed", ""
    yield "mcp/__main__.py", _MAIN


def _lines(name: str, row: Mapping[str, Any], form: str, is_package: bool, rows: Mapping[str, Any]) -> Iterator[str]:
    yield f'"""`{name}`, {_WHAT}."""'
    yield ""
    if "." not in name:
        yield _CHECK.format(package=name, form=form)
    types = f"mcp_generated.compat.types_{form}"
    if row.get("all"):
        yield f"from {types} import *"
    sources = [(types, row.get("types", "")), ("mcp_generated.compat", row.get("compat", ""))]
    own: list[str] = []
    for source, names in [*sources, *row.get("from", {}).items()]:
        for item in names.split():
            here, _, there = item.partition("=")
            own.append(here)
            yield f"from {source} import {there or here} as {here}"
    if absent := row.get("absent", "").split():
        yield "from mcp_products.compat.forms.absent import absent as _absent"
    yield from (f"{item} = _absent({f'{name}.{item}'!r}, {_REMEDIES.get(item, '')!r})" for item in absent)
    own += absent
    if "text" in row:
        yield row["text"]
    if is_package and (children := [child for child in _children(name, rows) if child not in own]):
        yield "from mcp_products.compat.forms.absent import modules_of as _modules_of"
        yield f"__getattr__ = _modules_of(__name__, {children!r})"
    if own and not row.get("all"):
        yield f"__all__ = {sorted(own)!r}"


def _children(name: str, rows: Mapping[str, Any]) -> list[str]:
    start = f"{name}."
    return sorted({other.removeprefix(start).partition(".")[0] for other in rows if other.startswith(start)})


def write(folder: Path, form: str) -> list[str]:
    """Write the packages of a form into a folder, and return the paths of their files."""
    texts = dict(rendered(read_table(Path(__file__).parent / form), form))
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return sorted(texts)


class NamesHook(BuildHookInterface[Any]):
    """Puts the packages into the wheel; the form is the name of the folder of the project."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the packages into a folder that is deleted after the build."""
        self.written = TemporaryDirectory()
        folder = Path(self.written.name)
        for path in write(folder, Path(self.root).name):
            build_data["force_include"][str(folder / path)] = path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the folder."""
        self.written.cleanup()
