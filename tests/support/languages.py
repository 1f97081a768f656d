"""What the tests of plugins for other languages share: the test vectors, the official examples, and the judgement."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.testkit.vectors import canonical, vectors
from mcp_generated import REVISIONS
from support.installation.builds import CACHE, digest_of
from support.peers import locked
from support.project import OFFICIAL, ROOT

PLUGINS = ROOT / "examples" / "plugins"
SEED, EACH = 1, 4
Line = dict[str, Any]


def write_code(plugin: str, folder: Path, *chosen: str | Path) -> None:
    """Write what a plugin in Python makes, such as "go.py": of the revision or of the protocol that is chosen."""
    words = ["plugin", sys.executable, PLUGINS / plugin, *chosen, "--output", folder]
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exit_code == 0, done.output


def write_revisions(plugin: str, folder: Path) -> None:
    """Write what a plugin makes of each revision, into a folder of the revision's name."""
    for revision, name in REVISIONS.items():
        write_code(plugin, folder / name, "--revision", revision)


@cache
def instances() -> list[Line]:
    """The instances of the test vectors of all revisions, which are made once for the schemas and the generator."""
    files = sorted([*(ROOT / "codegen" / "mcp_codegen").rglob("*.py"), *(ROOT / "schema").rglob("*.*")])
    file = CACHE / f"vectors-{digest_of(files)[:16]}.json"
    with locked(file):
        if not file.exists():
            file.write_text(json.dumps(_made()), encoding="utf-8")
    lines: list[Line] = json.loads(file.read_text(encoding="utf-8"))
    assert len(lines) > 5_000
    return lines


def _made() -> list[Line]:
    schemas = SchemaCatalog(ROOT / "schema")
    return [
        line
        for revision in REVISIONS
        for line in vectors(schemas.revision(revision), schemas.normalized(revision)[0], SEED, EACH)
        if line["kind"] == "instance"
    ]


def examples() -> list[Line]:
    """The official examples, as instances."""
    return [
        {
            "revision": path.parents[2].name,
            "type": path.parent.name,
            "instance": json.loads(path.read_text(encoding="utf-8")),
        }
        for path in sorted(OFFICIAL.glob("*/examples/*/*.json"))
    ]


def answers(judge: Sequence[str | Path], lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Yield each line with what a program answers: the instance as `written`, or an `error`."""
    text = "\n".join(map(json.dumps, lines))
    done = subprocess.run(judge, input=text, capture_output=True, text=True, timeout=120, encoding="utf-8")
    assert done.returncode == 0, done.stderr[:4000]
    return zip(lines, map(json.loads, done.stdout.splitlines()), strict=True)


def wrong_verdicts(judge: Sequence[str | Path]) -> list[tuple[Line, Line]]:
    """The vectors on which a program has another verdict than the schema, or that it does not write as they are."""
    return [
        (line, answer)
        for line, answer in answers(judge, instances())
        if line["valid"] != ("written" in answer)
        or (line["valid"] and canonical(answer["written"]) != line["canonical"])
    ]


def equal_examples(judge: Sequence[str | Path]) -> int:
    """How many of the official examples a program writes as it has read them."""
    return sum(answer.get("written") == line["instance"] for line, answer in answers(judge, examples()))
