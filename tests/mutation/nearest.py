"""Which tests are nearest to a module: by the modules they import, the names they use, and where they stand."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from functools import cache
from pathlib import Path

# What tests of the repository, of packages of others and of this program say nothing about a change.
OTHER_FOLDERS = ("house", "interop", "conformance", "mutation")
COMMON = {"mcp", "runtime", "codegen", "tests", "test", "init", "the", "and", "of", "py"}
IMPORTED, USED, PLACED, BEYOND = 8.0, 3.0, 2.0, 0.3  # Weights. BEYOND: of the names of modules that import this one.


def words_of(text: str) -> set[str]:
    """Return the words of a path or a name, in lower case and without a plural's s."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)
    return {part.lower().removesuffix("s") for part in parts} - COMMON


@cache
def names_of(path: Path) -> frozenset[str]:
    """Return the names of a file's functions, classes and methods that are long enough to mean something."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return frozenset(name for name in names if len(name) > 4 and not name.startswith("__"))


class NearestTests:
    """The files of tests of a tree, and how near they are to a module."""

    def __init__(self, root: Path) -> None:
        paths = [path for path in sorted((root / "tests").rglob("test_*.py"))]
        self.root = root
        self.tests = {
            path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for path in paths
            if path.relative_to(root).parts[1] not in OTHER_FOLDERS
        }
        self.used = {test: set(re.findall(r"[A-Za-z_]\w+", text)) for test, text in self.tests.items()}
        self.placed = {test: words_of(test) for test in self.tests}
        self.name_counts = Counter(name for names in self.used.values() for name in names)
        self.word_counts = Counter(word for words in self.placed.values() for word in words)
        self.modules = {
            path: path.read_text(encoding="utf-8")
            for folder in ("runtime", "codegen")
            for path in sorted((root / folder).rglob("*.py"))
        }

    def of(self, file: str, count: int) -> list[str]:
        """Return the files of tests that are nearest to a module, the nearest first."""
        path = self.root / file
        module = ".".join(Path(file).with_suffix("").parts[1:]).removesuffix(".__init__")
        stem = module.rpartition(".")[2]
        importing = [p for p, text in self.modules.items() if p != path and re.search(rf"\b{stem} import\b", text)]
        weights = dict.fromkeys(names_of(path), USED)
        for other in importing[:10]:
            for name in names_of(other):
                weights.setdefault(name, USED * BEYOND)
        scores = {test: self._score(test, module, weights) for test in self.tests}
        return sorted(scores, key=lambda test: (-scores[test], test))[:count]

    def _score(self, test: str, module: str, weights: dict[str, float]) -> float:
        score = IMPORTED if re.search(rf"\b{re.escape(module)}\b", self.tests[test]) else 0.0
        package = module.rpartition(".")[0]
        score += IMPORTED / 2 if "." in package and re.search(rf"\b{re.escape(package)}\b", self.tests[test]) else 0.0
        total = len(self.tests)
        for name in self.used[test] & weights.keys():
            score += weights[name] * math.log(total / self.name_counts[name]) / math.log(total)
        for word in self.placed[test] & words_of(module):
            score += PLACED * math.log(total / self.word_counts[word]) / math.log(total)
        return score
