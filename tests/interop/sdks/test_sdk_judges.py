"""What the types of the official SDKs for Go, Rust and Java accept of the test vectors, and what they write of them:
with `-s`, this prints their rows of docs/vectors.md, which must be those of the page. `nox -s sdks` runs this.
"""

from __future__ import annotations

from collections import Counter

import pytest
from support.languages import Line, answers, instances
from support.project import ROOT
from support.sdk_peers import built

from mcp_codegen.testkit.vectors import canonical

pytestmark = [pytest.mark.campaign, pytest.mark.deadline(120)]

SDKS = {
    "go": ("go-sdk 1.8.0", "2026-07-28"),
    "rust": ("rmcp 3.11.0", "2026-07-28"),
    "java": ("java-sdk 2.1.0", "2025-11-25"),
}
"""The language, and the SDK and the newest revision that it has."""
Answers = list[tuple[Line, Line]]


def judged(language: str) -> Answers:
    """The vectors of which an SDK has the type, with its answers. Vectors with an envelope are marked for it."""
    known = [line for line in instances() if line["revision"] <= SDKS[language][1]]
    place = lambda line: (line["revision"], line["of"], line["part"])
    enveloped = {place(line) for line in known if line["valid"] and "jsonrpc" in line["instance"]}
    given = [
        {**{key: line[key] for key in ("type", "of", "part", "instance")}, "enveloped": place(line) in enveloped}
        for line in known
    ]
    answered = answers([*built(language), "judge"], given)
    return [(line, answer) for line, (_, answer) in zip(known, answered, strict=True) if answer is not None]


def row(all_of_them: Answers, revision: str) -> str:
    """Return the row of a revision in the table of docs/vectors.md, without the judge."""
    those = [(line, answer) for line, answer in all_of_them if line["revision"] == revision]
    valid = [answer for line, answer in those if line["valid"]]
    refused = sum("error" in answer for answer in valid)
    accepted = Counter(line["why"] for line, answer in those if not line["valid"] and "written" in answer)
    classes = ", ".join(f"{why} {count}" for why, count in sorted(accepted.items())) or "–"
    invalid = len(those) - len(valid)
    return f"| {revision} | {refused} of {len(valid)} | {accepted.total()} of {invalid} | {classes} |"


def written_otherwise(all_of_them: Answers) -> str:
    """Return how many of the valid instances that are accepted are written as others."""
    valid = [(line, answer) for line, answer in all_of_them if line["valid"] and "written" in answer]
    others = sum(canonical(answer["written"]) != line["canonical"] for line, answer in valid)
    return f"{others} of {len(valid)}"


@pytest.mark.parametrize("language", SDKS)
def test_the_page_has_what_an_sdk_accepts_and_writes_of_the_vectors(language: str) -> None:
    judge, all_of_them = SDKS[language][0], judged(language)
    rows = [row(all_of_them, revision) for revision in sorted({line["revision"] for line, _ in all_of_them})]
    table = "\n".join([f"| {judge} {rows[0]}", *(f"| {one}" for one in rows[1:])])
    otherwise = f"| {judge} | {written_otherwise(all_of_them)} |"
    print(f"\n{table}\n\n{otherwise}")
    page = (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")
    assert table in page
    assert otherwise in page
