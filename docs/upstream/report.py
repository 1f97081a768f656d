"""Write the tables of report.md from what the repository has: its generated code, templates, data files and manifests.

    python docs/upstream/report.py [--check]

A table stands in the page between `<!-- rows: NAME -->` and `<!-- end -->`. With `--check` nothing is written, and the
exit code is 1 if the page is out of date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = Path(__file__).with_name("report.md")
GENERATED: Final = ROOT / "generated" / "mcp_generated"
NEWEST: Final = "v2026_07_28"
PLACE: Final = re.compile(r"(<!-- rows: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.S)


@dataclass(frozen=True)
class Layer:
    """A layer of generated code: where it is below generated/mcp_generated, its templates, and what it follows from."""

    name: str
    source: str
    files: str
    templates: str = ""


LAYERS: Final = (
    Layer(
        "types", "schema", "*/types.py */types/*.py */core_schemas.py", "types.* types/*/* area* core_schemas* macros*"
    ),
    Layer("method tables", "schema, and tags or the overlay", "*/methods.py", "methods.*"),
    Layer("client classes", "method tables", "*/client.py */sync.py", "client.* sync.*"),
    Layer("server classes", "method tables", "*/server.py", "server.*"),
    Layer("converters", "two schemas, and rows where they differ", "converters/*.py", "converter*"),
    Layer("client of all versions", "method tables of all versions", "client.py multi.py", "host_client.* multi.*"),
    Layer("extensions", "a schema and a manifest each", "extensions/*/*.py extensions/*.py"),
    Layer("official types", "schema, and rows for names", "compat/types_*.py", "compat_types.* official/*"),
    Layer(
        "names to import",
        "the catalogue of names",
        "*.py */__init__.py",
        "index* package* compat.py* app.* names_area*",
    ),
)

# A file of data: what a row is, and who needs it.
DATA: Final = {
    "schema/overlay.toml": "a fact that no schema states, or a better name; with tags, the newest version needs none",
    "schema/conversions.toml": "a conversion that two schemas do not determine, or the new name of something",
    "schema/official.toml": "a name or a form of the official Python types that no rule gives",
    "schema/docs.toml": "the sentences of a type or a property, in our own words",
}
BY_HAND: Final = {
    "runtime": "the runtime: sessions, transports, client and server beneath the generated classes",
    "products": "products around it: app, authorization, relays, workers, compat, lint",
    "codegen": "the generator, and the tools for authors",
}


def table(head: Sequence[str], rows: Iterable[Sequence[object]], right: int) -> str:
    """Return a table of Markdown; the last `right` columns are numbers."""
    line = "|" + "---|" * (len(head) - right) + "---:|" * right
    return "\n".join([f"| {' | '.join(head)} |", line, *(f"| {' | '.join(map(str, row))} |" for row in rows)]) + "\n"


def lines(paths: Iterable[Path]) -> int:
    """Return how many lines the files have together."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def layers() -> str:
    """Return the lines of each layer, in the newest version and in all of them."""
    taken: set[Path] = set()
    rows: list[tuple[object, ...]] = []
    for layer in LAYERS:
        found = {path for pattern in layer.files.split() for path in GENERATED.glob(pattern)} - taken
        taken |= found
        newest = [path for path in found if NEWEST in path.parts]
        templates = {path for pattern in layer.templates.split() for path in (ROOT / "templates").glob(pattern)}
        sizes = (lines(templates) or "those above", lines(newest) or "–", lines(found))
        rows.append((layer.name, layer.source, *sizes))
    if left := {path for path in GENERATED.rglob("*.py")} - taken:
        raise SystemExit(f"no layer of report.py has {sorted(str(path.relative_to(GENERATED)) for path in left)}")
    rows.append(("all", "", "", lines(path for path in taken if NEWEST in path.parts), lines(taken)))
    return table(("layer", "made from", "lines of template", "generated, newest version", "generated, all"), rows, 3)


def data() -> str:
    """Return how many rows the files of data have."""
    counted = {path: _rows(tomllib.loads((ROOT / path).read_text(encoding="utf-8"))) for path in DATA}
    return table(("file", "a row is", "rows"), ((f"`{path}`", DATA[path], rows) for path, rows in counted.items()), 1)


def _rows(data: dict[str, Any]) -> int:
    """Return how many rows there are: the entries of arrays of tables, and those of tables that are not a group."""
    arrays = sum(len(rows) for rows in data.values() if isinstance(rows, list))
    return arrays or sum(len(group) if isinstance(group, dict) else 1 for group in data.values())


def hand() -> str:
    """Return the lines of the hand-written packages, rounded: they change with each commit."""
    sizes = {name: lines((ROOT / name).rglob("*.py")) for name in BY_HAND}
    rows = ((f"`{name}`", BY_HAND[name], f"about {round(size / 5000) * 5000:,}") for name, size in sizes.items())
    return table(("folder", "what it is", "lines with comments"), rows, 1)


def tags() -> str:
    """Return what the tags say that a newest schema needs, by tag, with the number of places."""
    meanings = {
        "role": "which message begins a connection, cancels, reports progress, lists or calls tools",
        "capability": "which capability a message needs, where its name does not say so",
        "requires": "which capability a property or a value needs",
        "constructs": "what a new object has, where a reader accepts more",
        "essential": "without which a message would be misread",
        "header": "which property a header repeats over HTTP",
        "httpStatus": "with which status an error goes over HTTP",
        "named": "what an inline object is called",
        "reserved": "which codes of errors nobody may send",
    }
    written = tomllib.loads((ROOT / "docs" / "upstream" / "tags.toml").read_text(encoding="utf-8"))
    names = [tag.split()[0].removeprefix("@") for places in written.values() for all in places.values() for tag in all]
    counted = Counter(names)
    if unknown := counted.keys() - meanings.keys():
        raise SystemExit(f"report.py says nothing about the tags {sorted(unknown)}")
    rows = ((f"`@{name}`", meanings[name], count) for name, count in counted.most_common())
    return table(("tag", "what only the prose says", "places"), rows, 1)


def manifests() -> str:
    """Return the manifests of extensions, and what comes of each."""
    rows: list[tuple[object, ...]] = []
    for path in sorted((ROOT / "schema" / "extensions").glob("*/manifest.toml")):
        written = tomllib.loads(path.read_text(encoding="utf-8"))
        text = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        messages = {name for names in written.get("roles", {}).values() for name in names}
        made = lines((GENERATED / "extensions" / path.parent.name).glob("*.py"))
        rows.append((path.parent.name, f"`{written['identifier']}`", written["base"], len(messages), len(text), made))
    head = ("extension", "identifier", "on", "messages", "lines of manifest", "generated")
    return table(head, rows, 3)


TABLES: Final[dict[str, Callable[[], str]]] = {
    "layers": layers,
    "data": data,
    "hand": hand,
    "tags": tags,
    "manifests": manifests,
}


def written(page: str) -> str:
    """Return the page with its tables."""
    return PLACE.sub(lambda place: f"{place[1]}{TABLES[place[2]]()}{place[4]}", page)


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with `--check` compare it."""
    before = PAGE.read_text(encoding="utf-8")
    after = written(before)
    if arguments == ["--check"]:
        return int(before != after)
    if arguments:
        raise SystemExit("report.py has one option: --check")
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
