"""What a server needs around it: environment variables, of the command line and files such as `.env`, and packages."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ..errors import CodegenError
from .probe import split_server

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}
_APPS: Final = frozenset({"App", "FastMCP", "MCPServer"})
_DISTRIBUTION: Final = "mcp-generated"
_NAME: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def variables_of(words: Iterable[str], files: Iterable[Path] = ()) -> dict[str, str]:
    """Return the variables of `NAME=VALUE` words and of files; words override files. Raises CodegenError."""
    variables: dict[str, str] = {}
    for file in files:
        variables |= read_env_file(file)
    return variables | assignments(words, "--env")


def assignments(words: Iterable[str], option: str) -> dict[str, str]:
    """Return the values of `NAME=VALUE` words by name. Raises CodegenError for a word without a name or a sign."""
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not name or not sign:
            raise CodegenError(f"{option} takes NAME=VALUE, not {word!r}")
        values[name] = value
    return values


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file with lines `NAME=VALUE`.

    Comments, `export`, and values in single or double quotes are allowed; nothing is expanded. Raises CodegenError with
    the number of the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CodegenError(f"{path}: cannot be read as a file of variables: {error}") from None
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise CodegenError(f"{path}, line {number}: is not NAME=VALUE")
        variables[match[1]] = _value(match[2], f"{path}, line {number}")
    return variables


def _value(text: str, place: str) -> str:
    quote = text[:1]
    if quote not in ("'", '"') or not quote:
        return re.sub(r"(^|\s+)#.*$", "", text)
    end = re.search(r"(?<!\\)" + quote if quote == '"' else quote, text[1:])
    rest = "" if end is None else text[1 + end.end() :].strip()
    if end is None or (rest and not rest.startswith("#")):
        raise CodegenError(f"{place}: the value has no closing {quote}, or text after it")
    value = text[1 : 1 + end.start()]
    return value if quote == "'" else re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), value)


# The packages that a server needs: `dependencies=` of its App, and the command of uv that installs them.


def declared_requirements(server: str, *, module: bool, strict: bool) -> list[str]:
    """Return `dependencies=` of the apps in a file, or in a module, without importing it.

    Raises CodegenError for a file that is not Python; if `strict`, also where the value is not a list of texts.
    """
    path = _module_file(split_server(server)[0]) if module else Path(split_server(server)[0])
    if path is None:
        return []
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise CodegenError(f"{path}: is not Python: {error}") from error
    requirements: dict[str, None] = {}
    for value in _values(tree):
        try:
            literal = ast.literal_eval(value)
        except ValueError:
            literal = None
        texts: list[Any] = [*literal] if isinstance(literal, (list, tuple)) else [None]
        if not all(isinstance(text, str) for text in texts):
            if not strict:
                continue
            place = f"{path}, line {value.lineno}"
            raise CodegenError(f"{place}: write dependencies=[…] with the texts themselves, which install reads here")
        requirements |= dict.fromkeys(texts)
    return [*requirements]


def missing_requirements(requirements: Iterable[str]) -> list[str]:
    """Return the requirements whose package is not installed in this Python; those with a marker are not judged."""
    return [text for text in requirements if ";" not in text and not _is_installed(text)]


def uv_command(requirements: Sequence[str]) -> tuple[str, ...]:
    """Return the words before a command that uv runs with these requirements and this package installed.

    Raises CodegenError without uv on the PATH.
    """
    uv = shutil.which("uv")
    if uv is None:
        raise CodegenError("uv is not on the PATH: install it (https://docs.astral.sh/uv/), or omit --uv and --with")
    own = f"{_DISTRIBUTION}[cli]=={version(_DISTRIBUTION)}"
    return (uv, "run", "--no-project", *(word for text in (own, *requirements) for word in ("--with", text)))


def _module_file(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None or not spec.origin.endswith(".py") else Path(spec.origin)


def _values(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the values of `dependencies=` in calls of app classes, their subclasses in the file included."""
    names = set(_APPS)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.name in _APPS and alias.asname}
        elif isinstance(node, ast.ClassDef) and any(_last_name(base) in names for base in node.bases):
            names.add(node.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last_name(node.func) in names:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "dependencies")


def _last_name(node: ast.expr) -> str:
    """Return `App` of `App`, `mcp_generated.App` and `App[State]`."""
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_installed(requirement: str) -> bool:
    name = _NAME.match(requirement)
    if name is None:
        return True
    try:
        version(name[1])
    except PackageNotFoundError:
        return False
    return True
