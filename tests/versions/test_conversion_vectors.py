"""The conversion pairs among the test vectors: each is what our converters make, and valid in the other version."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import cache
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from support.project import ROOT

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.testkit.vectors import CAPABILITIES, canonical
from mcp_generated import REVISIONS
from mcp_products.versions.conversion import ConversionReport, chain_of
from mcp_runtime.errors import ConversionError

OLDEST, *OTHERS = REVISIONS
Line = dict[str, Any]


def written(*words: str) -> list[Line]:
    done = CliRunner().invoke(main, ["vectors", *words])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


def conversions(revision: str, each: int) -> list[Line]:
    lines = written("--revision", revision, "--each", str(each), "--conversions")
    return [line for line in lines if line["kind"] == "conversion"]


@cache
def judge(revision: str, name: str) -> Any:
    definitions = SchemaCatalog(ROOT / "schema").normalized(revision)[0]["$defs"]
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})


def made(line: Line) -> Line:
    """What our converter makes of an instance."""
    chain = chain_of("mcp_generated", line["revision"], line["to"])
    is_result = line["part"] == "result"
    direction = "client_to_server" if (line["sender"] == "client") != is_result else "server_to_client"
    if (removed := chain.removed_method(direction, line["of"])) is not None:
        return {"refused": f"method {line['of']}", "reason": removed.reason}
    report = ConversionReport()
    try:
        if is_result:
            value = chain.result(direction, line["of"], line["instance"], report)
        else:
            session = {"client_capabilities": CAPABILITIES}
            value = chain.params(direction, line["of"], line["instance"].get("params", {}), report, session)
    except ConversionError as error:
        return {"refused": error.rule, "reason": str(error)}
    lost = [{"at": loss.path, "rule": loss.rule} for loss in report.losses]
    return {"value": value, "method": chain.method(direction, line["of"]), "lost": lost}


def check(line: Line) -> str:
    """Check a line; return what has become of its instance."""
    expected = made(line)
    if "refused" in line:
        assert {key: line[key] for key in ("refused", "reason")} == expected, line
        return "refused"
    converted = line["converted"]
    if line["part"] == "result":
        assert canonical(converted) == canonical(expected["value"]), line
    else:
        assert canonical(converted.get("params", {})) == canonical(expected["value"]), line
        assert converted["method"] == expected["method"], line
    assert line["lost"] == expected["lost"], line
    assert line["canonical"] == canonical(converted), line
    judge(line["to"], line["converted_type"]).validate(json.loads(line["canonical"]))
    return "lost" if line["lost"] else "whole"


def test_what_the_oldest_version_becomes_in_each_other_is_valid_there_and_as_we_convert_it() -> None:
    lines = conversions(OLDEST, 1)
    assert {line["to"] for line in lines} == set(OTHERS)
    assert Counter(map(check, lines))["whole"] > len(lines) / 2


@pytest.mark.long
@pytest.mark.parametrize("source", list(REVISIONS))
def test_what_each_version_becomes_in_each_other_is_valid_there_and_as_we_convert_it(source: str) -> None:
    described = jsonschema.Draft202012Validator(json.loads(CliRunner().invoke(main, ["vectors", "--describe"]).output))
    lines = conversions(source, 4)
    assert {line["to"] for line in lines} == REVISIONS.keys() - {source}
    assert len({line["id"] for line in lines}) == len(lines) > 500
    for line in lines:
        described.validate(line)
    met = Counter((line["to"], check(line)) for line in lines)
    total = Counter(outcome for (_, outcome), count in met.items() for _ in range(count))
    row = f"| {source} | {total['whole']} | {total['lost']} | {total['refused']} |"
    print(row)
    assert row in (ROOT / "docs" / "testkit.md").read_text(encoding="utf-8")
    assert all(met[target, "whole"] > 50 for target in REVISIONS if target != source), met


@pytest.mark.long
def test_a_package_that_does_not_convert_is_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_codegen.testkit.vectors._CONVERT", (sys.executable, "-c", "exit('no converter')"))
    done = CliRunner().invoke(main, ["vectors", "--revision", OLDEST, "--each", "1", "--conversions"])
    assert done.exit_code == 2
    assert "cannot be converted: no converter; install mcp-generated of the same version" in " ".join(
        done.output.split()
    )
