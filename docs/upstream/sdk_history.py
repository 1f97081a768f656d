"""Compare what the official SDK changed in its types, when the draft changed, with what regeneration changes.

    python docs/upstream/sdk_history.py --specification CLONE --sdk CLONE

Each commit of the SDK that pins another commit of the draft is one row. What a program sees of the types is written as
lines, one for each field, row of a table, union and constant; a change takes some away and adds others. Prints the
table of docs/official-types.md, and the lines that only one side changes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.protocols import official_files
from mcp_codegen.importer.importer import import_revision
from mcp_codegen.paths import data_path

ROOT: Final = Path(__file__).resolve().parents[2]
FACTS: Final = ROOT / "tests" / "support" / "peer_drivers" / "official_types.py"
FORM: Final = "mcp-types-2.3"
PINS: Final = "schema/PINNED.json"
DRAFT: Final = "2026-07-28"  # What the SDK called the draft.
# Where the SDK had its types, and what they import from elsewhere: since 2.0, and before.
PLACES: Final = (("src/mcp-types", "mcp_types", ()), ("src", "mcp/types", ("mcp/shared/version.py",)))
_REFERENCE: Final = "$ref"
_PLAIN: Final = ("string", "integer", "number")


class Change(NamedTuple):
    """A line that a change takes away (`-`) or adds (`+`)."""

    sign: str
    line: str


def git(clone: Path, *words: str) -> bytes:
    """Return what git prints about a clone."""
    return subprocess.run(["git", "-C", str(clone), *words], check=True, capture_output=True).stdout


def commits_of_drafts(sdk: Path) -> list[tuple[str, str]]:
    """Return the commits of the SDK that pin another commit of the draft, oldest first, each with that commit."""
    found: list[tuple[str, str]] = []
    for commit in git(sdk, "log", "--reverse", "--format=%H", "--", PINS).decode().split():
        pinned = json.loads(git(sdk, "show", f"{commit}:{PINS}"))
        draft = next((pin["spec_commit"] for pin in pinned if "/draft/" in pin["source_path_in_spec_repo"]), "")
        if draft and (not found or found[-1][1] != draft):
            found.append((commit, draft))
    return found


def types_of_the_sdk(sdk: Path, commit: str, folder: Path) -> list[str]:
    """Write the types that the SDK has at a commit into a folder, and return the names of their modules."""
    names = git(sdk, "ls-tree", "-r", "--name-only", commit, "src").decode().split()
    root, package, others = next(place for place in PLACES if any(f"{place[0]}/{place[1]}/" in name for name in names))
    wanted = (f"{root}/{package}/", *(f"{root}/{name}" for name in others))
    for name in names:
        if name.startswith(wanted) and name.endswith(".py"):
            path = folder / name.removeprefix(f"{root}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(git(sdk, "show", f"{commit}:{name}"))
    return modules(folder / package, package.replace("/", "."))


def types_of_the_generator(specification: Path, draft: str, folder: Path) -> list[str]:
    """Write the types that the generator makes of a draft into a folder, and return the names of their modules."""
    official, schemas = folder / "official", folder / "schema"
    official.mkdir(parents=True)
    shutil.copytree(data_path("schema"), schemas, ignore=shutil.ignore_patterns("extensions"))
    for name in ("schema.ts", "schema.json"):
        (official / name).write_bytes(git(specification, "show", f"{draft}:schema/draft/{name}"))
    before = SchemaCatalog(schemas).pins[DRAFT]
    imported = import_revision(official, DRAFT, before.follows, draft, before.like)
    (schemas / DRAFT / "schema.json").write_text(imported.schema, encoding="utf-8")
    (schemas / DRAFT / "pins.toml").write_text(imported.pins.text(), encoding="utf-8")
    for path, text in official_files(SchemaCatalog(schemas), FORM).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return modules(folder / "mcp_types", "mcp_types")


def modules(folder: Path, package: str) -> list[str]:
    """Return the public modules of the types, and the one of the types of the draft."""
    of_draft = next(path.stem for path in folder.iterdir() if path.stem.strip("_").startswith("v2026"))
    return [package, f"{package}.jsonrpc", f"{package}.methods", f"{package}.{of_draft}"]


def lines(folder: Path, names: Iterable[str]) -> set[str]:
    """Return what a program sees of the types in these modules, as lines."""
    command = [sys.executable, str(FACTS), ",".join(names), str(folder / "no examples")]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: set[str] = set()
    for name, fact in json.loads(done.stdout)["names"].items():
        module, _, last = name.rpartition(".")
        found.update(_written(f"{DRAFT} {last}" if module.strip("_").startswith("v2026") else last, fact))
    return found


def _written(name: str, fact: Any) -> Iterator[str]:
    """Yield the lines of a name: those of a class, of a table, of a union, or of a constant."""
    if not isinstance(fact, dict):
        yield f"{name} = {json.dumps(fact)}"
    elif "fields" in fact and fact["bases"] != ["RootModel"]:
        schema = fact["schema"] if isinstance(fact["schema"], dict) else {}
        definitions = schema.get("$defs", {})
        body = definitions[schema[_REFERENCE].rpartition("/")[2]] if _REFERENCE in schema else schema
        yield f"{name}: a class of {', '.join(fact['bases']) or 'no other'}, {fact['extra']}"
        for field, alias, required, default in fact["fields"]:
            written = json.dumps(_resolved(body.get("properties", {}).get(alias), definitions), sort_keys=True)
            yield f"{name}.{field}: {alias}, {'required' if required else default}, {written}"
    elif all(isinstance(arms, list) and all(isinstance(arm, str) for arm in arms) for arms in fact.values()):
        yield from (f"{name}[{key}] = {' | '.join(arms)}" for key, arms in fact.items())
    else:
        schema = fact["schema"] if "fields" in fact else fact  # A union is a class with a root in the SDK.
        arms = sorted(json.dumps(_resolved(arm, {}), sort_keys=True) for arm in (schema or {}).get("anyOf", ()))
        yield f"{name} = {' | '.join(arms)}"


def _resolved(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema with references to texts and numbers replaced by them: the SDK has classes for some of these."""
    if isinstance(schema, list):
        return sorted((_resolved(item, definitions) for item in schema), key=str)
    if not isinstance(schema, dict):
        return schema
    target = definitions.get(str(schema.get(_REFERENCE, "")).rpartition("/")[2], {})
    arms = target.get("anyOf", [target])
    if target and all(arm.get("type") in _PLAIN for arm in arms):
        return _resolved(target, definitions)
    resolved = {key: _resolved(value, definitions) for key, value in schema.items()}
    if "anyOf" in resolved:
        resolved["anyOf"] = sorted((inner for arm in resolved["anyOf"] for inner in arm.get("anyOf", [arm])), key=str)
    return resolved


def changes(before: set[str], after: set[str]) -> set[Change]:
    """Return the lines that are not on both sides."""
    return {Change("-", line) for line in before - after} | {Change("+", line) for line in after - before}


def main() -> None:
    """Print the table, and the lines that only one side changes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--specification", type=Path, required=True, metavar="CLONE")
    parser.add_argument("--sdk", type=Path, required=True, metavar="CLONE")
    options = parser.parse_args()
    only: list[str] = []
    print("| commit of the SDK | draft | lines that it changes | of them here too | only here |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for (_, old), (commit, new) in pairwise(commits_of_drafts(options.sdk)):
            place = Path(name) / commit
            states = [(place / at, f"{commit}{at}") for at in ("^", "^{commit}")]
            drafts = [(place / draft, draft) for draft in (old, new)]
            theirs = changes(*(lines(at, types_of_the_sdk(options.sdk, state, at)) for at, state in states))
            ours = changes(
                *(lines(at, types_of_the_generator(options.specification, draft, at)) for at, draft in drafts)
            )
            both = theirs & ours
            print(f"| `{commit[:9]}` | `{new[:8]}` | {len(theirs)} | {len(both)} | {len(ours - both)} |")
            for side, left in (("there", theirs - both), ("here", ours - both)):
                only += [f"{commit[:9]} only {side}: {sign} {line}" for sign, line in sorted(left)]
    print("", *only, sep="\n")


if __name__ == "__main__":
    main()
