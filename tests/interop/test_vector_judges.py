"""What the generated types and the official SDKs for Python and TypeScript accept of the test vectors. With `-s`, each
prints its row of the table in docs/vectors.md, which must be that of the page."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.peers import PEER_DRIVERS, driven, node_peer, python_peer
from support.project import ROOT, package

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.testkit.vectors import vectors
from mcp_products.models.described_fields import Null, parse

pytestmark = pytest.mark.long

SEED, EACH = 1, 4
PEERS = {"mcp-types 2.3.0": "mcp-types==2.3.0", "mcp 1.30.0": "mcp==1.30.0"}
# The package, which of its readers judges, and the newest revision that it has.
NODE_PEERS = {
    "TypeScript SDK 1.32.2": ("@modelcontextprotocol/sdk@1.32.2", "schemas", "2025-11-25"),
    "TypeScript SDK 2.4.0, schemas": ("@modelcontextprotocol/client@2.4.0", "schemas", "2026-07-28"),
    "TypeScript SDK 2.4.0, codec": ("@modelcontextprotocol/client@2.4.0", "codec", "2026-07-28"),
}
Line = dict[str, Any]


@cache
def lines(revision: str) -> list[Line]:
    schemas = SchemaCatalog(ROOT / "schema")
    return list(vectors(schemas.revision(revision), schemas.normalized(revision)[0], SEED, EACH))


def verdict(line: Line, null: Null) -> bool:
    shape = getattr(package(line["revision"], "types"), line["type"])
    try:
        parse(shape, line["instance"], null=null)
    except ValidationError:
        return False
    return True


@cache
def published() -> dict[tuple[str, str], str]:
    """The numbers of each judge and revision, as the page has them. A row without a judge belongs to the one above."""
    rows: dict[tuple[str, str], str] = {}
    judge = ""
    for line in (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5:
            judge = cells[0] or judge
            rows[judge, cells[1]] = " | ".join(cells[2:])
    return rows


def tally(judge: str, revision: str, verdicts: dict[str, bool]) -> tuple[list[Line], list[Line], str]:
    """Return the valid instances that are refused, the invalid ones that are accepted, and their numbers."""
    judged = [line for line in lines(revision) if line.get("id") in verdicts and line["kind"] == "instance"]
    valid = [line for line in judged if line["valid"]]
    refused = [line for line in valid if not verdicts[line["id"]]]
    accepted = [line for line in judged if not line["valid"] and verdicts[line["id"]]]
    classes = ", ".join(f"{why} {count}" for why, count in sorted(Counter(line["why"] for line in accepted).items()))
    wrong = f"{len(refused)} of {len(valid)} | {len(accepted)} of {len(judged) - len(valid)} | {classes or '–'}"
    print(f"\n| {judge} | {revision} | {wrong} |")
    return refused, accepted, wrong


@pytest.mark.edges
@pytest.mark.parametrize("null", ["absent", "refused"])
def test_generated_types_refuse_nothing_valid_and_accept_only_what_their_policy_says(revision: str, null: Null) -> None:
    verdicts = {line["id"]: verdict(line, null) for line in lines(revision) if line["kind"] == "instance"}
    refused, accepted, wrong = tally(f"generated types, null {null}", revision, verdicts)
    assert refused == []
    assert [line for line in accepted if "null" not in line["policy"] or null == "refused"] == []
    assert null == "refused" or wrong == published()["generated types", revision]


@pytest.mark.parametrize("judge", list(PEERS))
def test_an_official_sdk_judges_the_vectors(judge: str, revision: str, tmp_path: Path) -> None:
    if "1.30" in judge and revision > "2025-11-25":
        pytest.skip(f"{judge} does not know {revision}")
    file = tmp_path / "vectors.jsonl"
    file.write_text("\n".join(map(json.dumps, lines(revision))), encoding="utf-8")
    verdicts = driven(python_peer(PEERS[judge]), "judge_vectors.py", str(file), limit=120.0)
    assert len(verdicts) > 300
    assert tally(judge, revision, verdicts)[2] == published()[judge, revision]


@pytest.mark.parametrize("judge", list(NODE_PEERS))
def test_the_official_typescript_sdk_judges_the_vectors(judge: str, revision: str, tmp_path: Path) -> None:
    package, reader, newest = NODE_PEERS[judge]
    if revision > newest:
        pytest.skip(f"{judge} does not know {revision}")
    file = tmp_path / "vectors.jsonl"
    file.write_text("\n".join(map(json.dumps, lines(revision))), encoding="utf-8")
    command = ["node", PEER_DRIVERS / "judge_vectors.mjs", node_peer(package), reader, file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120.0, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-4000:]
    verdicts = json.loads(done.stdout)
    assert len(verdicts) > 300
    assert tally(judge, revision, verdicts)[2] == published()[judge, revision]
