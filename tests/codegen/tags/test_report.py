"""The report of findings: its tables are those of the repository, and its JSON Schema is that of the manifests."""

from __future__ import annotations

import json
import runpy
import tomllib
from dataclasses import fields
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.project import ROOT

from mcp_codegen.extensions.manifest import Manifest

UPSTREAM = ROOT / "docs" / "upstream"
MANIFESTS = sorted((ROOT / "schema" / "extensions").glob("*/manifest.toml"))


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    written = json.loads((UPSTREAM / "manifest.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(written)
    return Draft202012Validator(written)


def test_the_page_has_the_tables_of_the_repository() -> None:
    """`python docs/upstream/report.py` writes them."""
    page = (UPSTREAM / "report.md").read_text(encoding="utf-8")
    report = runpy.run_path(str(UPSTREAM / "report.py"))
    assert report["written"](page) == page
    assert [match[2] for match in report["PLACE"].finditer(page)] == [*report["TABLES"]]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_every_manifest_is_valid(path: Any, schema: Draft202012Validator) -> None:
    assert [error.message for error in schema.iter_errors(tomllib.loads(path.read_text(encoding="utf-8")))] == []


def test_the_schema_has_the_keys_that_the_generator_reads(schema: Draft202012Validator) -> None:
    assert {*schema.schema["properties"]} == {field.name for field in fields(Manifest)} - {"name"}


@pytest.mark.parametrize(
    "wrong",
    [{"role": {}}, {"roles": {"Client": ["A"]}}, {"closed": "ajar"}, {"filters": {"A": ["a"]}}, {"base": ""}],
    ids=str,
)
def test_a_manifest_with_a_mistake_is_refused(wrong: dict[str, Any], schema: Draft202012Validator) -> None:
    right = {"identifier": "org.example/one", "base": "2026-07-28"}
    assert schema.is_valid(right) and not schema.is_valid({**right, **wrong})
