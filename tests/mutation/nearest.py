"""Which tests are nearest to a module: by the modules they import, the names they use, and where they stand."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from functools import cache
from pathlib import Path

from mutation.places import Mutation

# What tests of the repository, of packages of others and of this program say nothing about a change.
OTHER_FOLDERS = ("house", "interop", "conformance", "mutation")
COMMON = {"mcp", "runtime", "codegen", "tests", "test", "init", "the", "and", "of", "py"}
IMPORTED, USED, PLACED = 8.0, 3.0, 6.0  # Weights.
BEYOND = 0.3  # A share of USED: names of the modules that import this one.
MENTIONED = 3.0  # Stems of the module's and the function's name anywhere in a test.
STEM = 6  # Letters.
TYPICAL = 150  # Names in a file of tests.
ENCLOSING, NEARBY, QUOTED = 6.0, 1.0, 6.0  # The function of the place, what it uses, and the texts in it.


def words_of(text: str) -> set[str]:
    """Return the stems of the words of a path or a name: `provided` and `providers` have one, as `cancelled` and
    `cancellation` have."""
    parts = {part.lower().removesuffix("s") for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)}
    return {part[:STEM] for part in parts - COMMON if len(part) > 2}


def around(path: Path, line: int) -> list[ast.AST]:
    """Return the nodes of the innermost function or class at a line; those of the line itself at module level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    spans = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    inner = [node for node in spans if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if inner:
        return [*ast.walk(max(inner, key=lambda node: node.lineno))]
    return [node for node in ast.walk(tree) if getattr(node, "lineno", 0) == line]


def attributes_of(nodes: list[ast.AST]) -> set[str]:
    """Return the names of attributes, keywords and functions that nodes use."""
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    return {name for name in names if len(name) > 4 and not name.startswith("_")}


def phrases_of(nodes: list[ast.AST]) -> set[str]:
    """Return the parts of the texts in nodes that a test may quote: two words in a row, or a key."""
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    phrases = {phrase for text in texts for phrase in re.findall(r"(?=\b([a-z']{3,} [a-z']{4,}) ?)", text)}
    return phrases | {f'"{text}"' for text in texts if re.fullmatch(r"[A-Za-z_./-]{6,40}", text)}


@cache
def names_of(path: Path) -> frozenset[str]:
    """Return the names of a file's functions, classes and methods that are long enough to mean something."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return frozenset(name for name in names if len(name) > 4 and not name.startswith("__"))


def text_of(path: Path) -> str:
    """Return the text of a file of tests, and of the tables that it reads: text files in a folder that it names."""
    text = path.read_text(encoding="utf-8")
    folders = {path.parent / name for name in re.findall(r'"([a-z_]+)"', text)}
    tables = [table for folder in sorted(folders) if folder.is_dir() for table in sorted(folder.glob("*.txt"))]
    return "\n".join([text, *(table.read_text(encoding="utf-8") for table in tables)])


class NearestTests:
    """The files of tests of a tree, and how near they are to a module."""

    def __init__(self, root: Path) -> None:
        paths = [path for path in sorted((root / "tests").rglob("test_*.py"))]
        self.root = root
        self.tests = {
            path.relative_to(root).as_posix(): text_of(path)
            for path in paths
            if path.relative_to(root).parts[1] not in OTHER_FOLDERS
        }
        self.used = {test: set(re.findall(r"[A-Za-z_]\w+", text)) for test, text in self.tests.items()}
        self.placed = {test: words_of(test) for test in self.tests}
        self.name_counts = Counter(name for names in self.used.values() for name in names)
        self.word_counts = Counter(word for words in self.placed.values() for word in words)
        self.mentioned = {
            test: {stem for name in names for stem in words_of(name)} for test, names in self.used.items()
        }
        self.mention_counts = Counter(stem for stems in self.mentioned.values() for stem in stems)
        self.modules = {
            path: path.read_text(encoding="utf-8")
            for folder in ("runtime", "products", "codegen")
            for path in sorted((root / folder).rglob("*.py"))
        }

    def of(self, place: Mutation, scope: str, count: int) -> list[str]:
        """Return the files of tests that are nearest to a place, the nearest first."""
        path = self.root / place.file
        module = ".".join(Path(place.file).with_suffix("").parts[1:]).removesuffix(".__init__")
        stem = module.rpartition(".")[2]
        imports = re.compile(rf"\b{stem} import\b|[\w.]*\.{stem}\"")  # A program is run by its name.
        importing = [p for p, text in self.modules.items() if p != path and imports.search(text)]
        weights = dict.fromkeys(names_of(path), USED)
        for other in importing[:10]:
            for name in names_of(other):
                weights.setdefault(name, USED * BEYOND)
        nodes = around(path, place.line)
        for name in attributes_of(nodes):
            weights[name] = weights.get(name, 0.0) + NEARBY
        weights.update(dict.fromkeys(scope.split("."), ENCLOSING))
        phrases = phrases_of(nodes)
        scores = {test: self._score(test, module, weights) for test in self.tests}
        for test, text in self.tests.items():
            scores[test] += QUOTED * min(2, sum(phrase in text for phrase in phrases))
            for word in words_of(f"{stem} {scope}") & self.mentioned[test]:
                scores[test] += MENTIONED * self._rarity(self.mention_counts[word])
        return sorted(scores, key=lambda test: (-scores[test], test))[:count]

    def _score(self, test: str, module: str, weights: dict[str, float]) -> float:
        score = IMPORTED if re.search(rf"\b{re.escape(module)}\b", self.tests[test]) else 0.0
        package = module.rpartition(".")[0]
        score += IMPORTED / 2 if "." in package and re.search(rf"\b{re.escape(package)}\b", self.tests[test]) else 0.0
        names = self.used[test] & weights.keys()
        common = sum(weights[name] * self._rarity(self.name_counts[name]) for name in names)
        score += common / math.sqrt(len(self.used[test]) / TYPICAL)  # A long file has many names of each kind.
        for word in self.placed[test] & words_of(module):
            score += PLACED * self._rarity(self.word_counts[word])
        return score

    def _rarity(self, count: int) -> float:
        """Return 1 for what one file of tests has, and 0 for what all have."""
        return math.log(len(self.tests) / count) / math.log(len(self.tests))
