"""A draft between two releases, such as a fork of an older one, is converted to both, and stops no row of a release."""

from __future__ import annotations

import pytest
from support.matrices import long_after
from support.project import ROOT
from support.schemas.drafts import draft

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.errors import CodegenError

RELEASES = list(SchemaCatalog(ROOT / "schema").pins)


@pytest.mark.edges
@pytest.mark.long
@pytest.mark.parametrize("follows", long_after(2, ["", *reversed(RELEASES)]))
def test_a_copy_of_any_release_may_stand_after_any_release(follows: str) -> None:
    for base in RELEASES:
        steps = draft(lambda types: None, base, follows).steps
        neighbours = {older for older, newer in steps if newer == "draft"}
        assert len(neighbours) in (1, 2) and ({follows} - {""}) <= neighbours


def test_a_row_that_no_release_needs_is_still_an_error() -> None:
    schemas = draft(lambda types: None, RELEASES[1], RELEASES[1])
    rows = schemas.conversions
    object.__setattr__(rows, "rows", (*rows.rows, type(rows.rows[0])("drop", "Nothing.there", {}, "a test")))
    with pytest.raises(CodegenError, match=r"Nothing\.there' is not used"):
        _ = schemas.steps
