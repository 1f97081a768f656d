"""Rules of the whole repository are tested by `nox -s check`; the code of the documentation, with all other tests."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what reads the whole repository. It says nothing of what a part does, and takes a minute."""
    if item.path.name != "test_docs.py":
        item.add_marker(pytest.mark.check)
