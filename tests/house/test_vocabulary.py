"""Names and prose use the words of the specification and of plain technical English, not words of our own.

docs/glossary.md lists the words to use instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.source_tree import ROOT, python_files, relative, syntax_tree

# Words that may be no part of an identifier or of the name of a file: `told` in `was_told`, `Told` or `told.py`.
PRIVATE_WORDS = frozenset("""
    alone arrivals ask asked asks atonce become becoming begun behind beside crossing each every face faces fault
    faults found given gone hear heard hearer hearing hears heed hollow honoured how inward kept keep known lacking
    largest left lent lone longest made most offered offers outward pair pairs patience said sealed says shakes shaking
    shelf silence skilled speaks spoken stands stranger taken tasked tell tells there together told turned unsaid
    unsealable usual vouch wanted way ways whom whose why wish worth
    """.split())

# Terms of others that contain such a word. They are allowed as a part of an identifier.
ALLOWED = {
    "connection_made": "asyncio.Protocol's callback",
    "keep_alive": "HTTP, RFC 9112",
    "not_found": "HTTP's status 404 and JSON-RPC's error -32601",
    "well_known": "well-known URIs, RFC 8615",
}

# Words that docstrings, comments and docs may not use either: plain English has no other use for them here.
PRIVATE_PROSE = re.compile(
    r"\b(atonce|faces?|hearers?|heed|hollow|honoured|lent|lone|shakes|shaking|shelf|shelves|skilled|strangers?|tasked"
    r"|unsaid|unsealable|vouch(es)?|what goes in|comes? out|goes in)\b",
    re.IGNORECASE,
)

CODE_FOLDERS = ("runtime", "codegen", "generated", "examples", "benchmarks", "docs", "tests")
PROSE = (*CODE_FOLDERS[:-1], "schema", "templates", "README.md")


def prose_files(folder: str) -> list[Path]:
    """Return the files of a folder that hold prose, or the file itself."""
    if (ROOT / folder).is_file():
        return [ROOT / folder]
    paths = sorted((ROOT / folder).rglob("*"))
    return [path for path in paths if path.suffix in (".py", ".md", ".jinja2") or path.match("schema/*.toml")]


def words(identifier: str) -> list[str]:
    """Return the words of a snake_case or CamelCase name, in lower case."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", identifier)
    return re.findall(r"[a-z]+", spaced.replace("_", " ").lower())


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the names that a file defines, and their lines: definitions, parameters, variables, attributes, aliases."""
    # The fields of generated types have the names of the schema.
    annotated = (node for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.AnnAssign))
    fields = {node.lineno for node in annotated} if relative(path).startswith("generated/") else set()
    for node in ast.walk(syntax_tree(path)):
        line = getattr(node, "lineno", 1)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield line, node.name
        elif isinstance(node, ast.arg):
            yield line, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno not in fields:
            yield line, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield line, node.attr
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield line, node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield line, node.asname


def private(identifier: str) -> set[str]:
    """Return the private words of an identifier, without those in terms that are allowed."""
    name = "_".join(words(identifier))
    for term in ALLOWED:
        name = re.sub(rf"(?<![a-z]){term}(?![a-z])", "", name)
    return PRIVATE_WORDS & set(name.split("_"))


@pytest.mark.parametrize("folder", CODE_FOLDERS)
def test_identifiers_have_no_private_words(folder: str) -> None:
    offenders: list[str] = []
    for path in python_files(folder):
        if private(path.stem):
            offenders.append(f"{relative(path)}: the name of the file")
        # The name of a test is a sentence.
        named = ((line, name) for line, name in identifiers(path) if not name.startswith("test_"))
        lines = {line: name for line, name in named if private(name)}
        offenders += [f"{relative(path)}:{line}: {name}" for line, name in sorted(lines.items())]
    assert not offenders, "\n".join(offenders)


@pytest.mark.parametrize("folder", PROSE)
def test_prose_has_no_private_words(folder: str) -> None:
    offenders: list[str] = []
    for path in prose_files(folder):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        offenders += [
            f"{relative(path)}:{number}: {line.strip()}" for number, line in lines if PRIVATE_PROSE.search(line)
        ]
    assert not offenders, "\n".join(offenders)


def test_the_words_of_a_name_are_its_parts() -> None:
    assert words("_was_told") == ["was", "told"]
    assert words("HTTPServerFace2") == ["http", "server", "face"]
    assert private("was_told") == {"told"}
    assert not private("interface") | private("KeepAliveTimer") | private("_well_known_path")


def test_enough_words_are_private() -> None:
    assert len(PRIVATE_WORDS) >= 40
