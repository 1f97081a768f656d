"""Troubleshooting and policies: each class of errors has its anchor, each protocol version its status."""

from __future__ import annotations

import re
import traceback
from datetime import date
from importlib import import_module
from typing import Final

import pytest
from support.project import ROOT
from website.reference import MODULES

from mcp_generated import REVISIONS
from mcp_runtime.errors import NotInstalledError

PAGE: Final = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
_CLASSES: Final = {
    name
    for module in MODULES
    if not module.endswith(".compat")  # Those have the names of the official SDK, whose documentation describes them.
    for name in getattr(import_module(module), "__all__", ())
    if isinstance(value := getattr(import_module(module), name), type) and issubclass(value, Exception)
}


@pytest.mark.parametrize("name", sorted(_CLASSES))
def test_every_public_class_of_errors_has_an_anchor_and_says_what_to_do(name: str) -> None:
    match = re.search(rf"^### {name}\n\n(.+?)(?=^#|\Z)", PAGE, re.M | re.S)
    assert match is not None, f"docs/troubleshooting.md has no heading {name}"
    assert len(match[1].split()) >= 10


def test_no_class_of_errors_is_described_that_is_not_there() -> None:
    errors = PAGE.split("\n## Errors\n")[1]
    # Programs catch it as LocalError, and as ImportError: it is not a name of the front door.
    assert set(re.findall(r"^### (\w+)$", errors, re.M)) == _CLASSES | {NotInstalledError.__name__}
    assert len(_CLASSES) >= 19


def test_twenty_things_that_go_wrong_are_described() -> None:
    """`tests/house/test_docs.py` runs the blocks, so the messages are those of this version."""
    symptoms = re.findall(r"^## (?!Errors)(.+)$", PAGE, re.M)
    assert len(symptoms) >= 20
    assert len(re.findall(r"^```text$", PAGE, re.M)) >= 15


def test_every_package_has_the_status_of_its_protocol_version() -> None:
    page = (ROOT / "VERSIONING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `mcp_generated\.(v\w+)` \| (\S+) \| (Draft|Current|Final) \|$", page, re.M)
    assert {revision: package for package, revision, _ in rows} == dict(REVISIONS)
    newest = max(REVISIONS, key=date.fromisoformat)
    assert {revision for _, revision, status in rows if status == "Current"} == {newest}


def _value(name: str) -> type[Exception]:
    modules = [import_module(module) for module in MODULES]
    value: type[Exception] = next(getattr(module, name) for module in modules if name in getattr(module, "__all__", ()))
    return value


def _traceback(error: Exception) -> list[str]:
    return "".join(traceback.format_exception(error)).splitlines()


@pytest.mark.parametrize("name", sorted(_CLASSES))
def test_a_traceback_names_the_anchor_of_its_error_and_keeps_the_notes_of_others(name: str) -> None:
    value = _value(name)
    error = value.__new__(value)
    error.add_note("while the shop was opened")
    note, own = _traceback(error)[-2:]
    assert (note, own) == (
        f"see https://mcp-codegen.example/docs/troubleshooting.html#{name.lower()}",
        "while the shop was opened",
    )
    assert re.search(rf"^### {name}$", PAGE, re.M), "the heading makes the anchor"
    assert _traceback(value.__new__(value))[-1] == note, "notes of one error are not those of another"
    derived = type("Shop", (value,), {})
    assert _traceback(derived.__new__(derived))[-1] == note
