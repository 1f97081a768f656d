"""What the generated types and the official SDKs accept of the test vectors. With `-s`, each prints a row of the
table in docs/vectors.md."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.peers import driven, python_peer
from support.project import ROOT, package

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.testkit.vectors import vectors
from mcp_products.models.parsing import Null, parse

pytestmark = pytest.mark.long

SEED, EACH = 1, 4
PEERS = {"mcp-types 2.3.0": "mcp-types==2.3.0", "mcp 1.30.0": "mcp==1.30.0"}
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


def tally(judge: str, revision: str, verdicts: dict[str, bool]) -> tuple[list[Line], list[Line]]:
    """Return the valid instances that are refused, and the invalid ones that are accepted; print their numbers."""
    judged = [line for line in lines(revision) if line.get("id") in verdicts and line["kind"] == "instance"]
    valid = [line for line in judged if line["valid"]]
    refused = [line for line in valid if not verdicts[line["id"]]]
    accepted = [line for line in judged if not line["valid"] and verdicts[line["id"]]]
    classes = ", ".join(f"{why} {count}" for why, count in sorted(Counter(line["why"] for line in accepted).items()))
    wrong = f"{len(refused)} of {len(valid)} | {len(accepted)} of {len(judged) - len(valid)} | {classes or '–'}"
    print(f"\n| {judge} | {revision} | {wrong} |")
    return refused, accepted


@pytest.mark.edges
@pytest.mark.parametrize("null", ["absent", "refused"])
def test_generated_types_refuse_nothing_valid_and_accept_only_what_their_policy_says(revision: str, null: Null) -> None:
    verdicts = {line["id"]: verdict(line, null) for line in lines(revision) if line["kind"] == "instance"}
    refused, accepted = tally(f"generated types, null {null}", revision, verdicts)
    assert refused == []
    assert [line for line in accepted if "null" not in line["policy"] or null == "refused"] == []


@pytest.mark.parametrize("judge", list(PEERS))
def test_an_official_sdk_judges_the_vectors(judge: str, revision: str, tmp_path: Path) -> None:
    if "1.30" in judge and revision > "2025-11-25":
        pytest.skip(f"{judge} does not know {revision}")
    file = tmp_path / "vectors.jsonl"
    file.write_text("\n".join(map(json.dumps, lines(revision))), encoding="utf-8")
    verdicts = driven(python_peer(PEERS[judge]), "judge_vectors.py", str(file), limit=120.0)
    assert len(verdicts) > 300
    tally(judge, revision, verdicts)
