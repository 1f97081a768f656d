"""The sample: drawn once at a seed, written to a file, and located in the code as it stands now."""

from __future__ import annotations

import ast
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from mutation.places import Mutation, is_another_program, mutations

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).with_name("sample.jsonl")


@dataclass(frozen=True)
class Drawn:
    """A mutation of the sample: its place is a function and a text, so that it stays when lines move."""

    number: int
    file: str
    scope: str  # The qualified name of the function or the class around it; empty for the module.
    operator: str
    before: str
    after: str
    occurrence: int = 0  # Which one of several that are alike in this scope.

    def located(self, root: Path = ROOT) -> Mutation | None:
        """Return the mutation in the code as it stands now; None if the code is gone."""
        path = root / self.file
        if not path.exists():
            return None
        source = path.read_bytes()
        scopes = Scopes(source)
        alike = [
            place
            for place in mutations(self.file, source)
            if (place.operator, place.before, place.after) == (self.operator, self.before, self.after)
            and scopes.of(place.line) == self.scope
        ]
        return alike[self.occurrence] if self.occurrence < len(alike) else None


class Scopes:
    """The functions and classes of a file, by line."""

    def __init__(self, source: bytes) -> None:
        self.spans: list[tuple[int, int, str]] = []
        self._collect(ast.parse(source), "")

    def _collect(self, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}".lstrip(".")
                self.spans.append((child.lineno, child.end_lineno or child.lineno, name))
            self._collect(child, name)

    def of(self, line: int) -> str:
        """Return the qualified name of the innermost function or class at a line."""
        return max(((first, name) for first, last, name in self.spans if first <= line <= last), default=(0, ""))[1]


def draw(seed: int, count: int) -> Iterator[Drawn]:
    """Yield a sample: from all folders, the larger the more; from all operators alike; one from a line."""
    rng = random.Random(seed)
    folders: dict[str, list[Mutation]] = defaultdict(list)
    for package in ("runtime", "products", "codegen"):
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            folders[path.parent.as_posix()] += mutations(file, path.read_bytes())
    names = sorted(name for name, places in folders.items() if places)
    draws = rng.sample(names, min(count, len(names)))
    draws += rng.choices(names, [len(folders[name]) for name in names], k=count - len(draws))
    chosen: dict[tuple[str, int], Mutation] = {}
    for name in draws:
        places = [place for place in folders[name] if (place.file, place.line) not in chosen]
        if places:
            operator = rng.choice(sorted({place.operator for place in places}))
            place = rng.choice([place for place in places if place.operator == operator])
            if is_another_program(place, (ROOT / place.file).read_bytes()):
                chosen[place.file, place.line] = place
    yield from map(_drawn, range(1, len(chosen) + 1), chosen.values())


def _drawn(number: int, place: Mutation) -> Drawn:
    source = (ROOT / place.file).read_bytes()
    scopes = Scopes(source)
    scope = scopes.of(place.line)
    alike = [
        other.start
        for other in mutations(place.file, source)
        if (other.operator, other.before, other.after) == (place.operator, place.before, place.after)
        and scopes.of(other.line) == scope
    ]
    occurrence = alike.index(place.start)
    return Drawn(number, place.file, scope, place.operator, place.before, place.after, occurrence)


def sample() -> list[Drawn]:
    """Return the sample that is written down."""
    return [Drawn(**json.loads(line)) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]


def write_sample(drawn: Iterator[Drawn]) -> None:
    """Write a sample down, in place of the last one."""
    lines = [json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in drawn]
    SAMPLE.write_text("".join(lines), encoding="utf-8")
