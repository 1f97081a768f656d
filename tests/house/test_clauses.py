"""The clause ids that tests name: each of them is in the list of clauses."""

from __future__ import annotations

import pytest
from clause_report import marked, read_clauses


def test_every_clause_that_a_test_names_is_one(request: pytest.FixtureRequest) -> None:
    ids = {clause.id for clause in read_clauses()}
    unknown = {id: tests for id, tests in marked(request.session.items).items() if id not in ids}
    assert not unknown
