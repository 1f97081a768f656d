"""Whether declared capabilities satisfy a requirement: by a value, or by an empty object that implies it."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.protocol.lifecycle import is_declared, satisfies
from mcp_runtime.protocol.revision import CapabilityRequirement

# What is declared, and whether it satisfies `client.elicitation.form`, and the same where an empty object implies it.
DECLARED: list[tuple[Any, bool, bool]] = [
    ({}, False, False),
    ({"elicitation": None}, False, False),
    ({"elicitation": {}}, False, True),
    ({"elicitation": {"form": {}}}, True, True),
    ({"elicitation": {"form": True}}, True, True),
    ({"elicitation": {"form": {"x": 1}}}, True, True),
    ({"elicitation": {"form": None}}, False, False),
    ({"elicitation": {"form": False}}, False, False),
    ({"elicitation": {"url": {}}}, False, False),
    ({"elicitation": {"url": {}, "form": {}}}, True, True),
    ({"elicitation": True}, False, False),
    ({"elicitation": []}, False, False),
    ({"sampling": {}}, False, False),
]


@pytest.mark.parametrize(("declared", "plain", "implied"), DECLARED)
def test_an_empty_object_satisfies_only_what_it_implies(declared: Any, plain: bool, implied: bool) -> None:
    def requirement(implied_by_empty: bool) -> CapabilityRequirement:
        return CapabilityRequirement(
            t.ElicitRequestFormParams, "client.elicitation.form", implied_by_empty=implied_by_empty
        )

    assert satisfies(declared, requirement(False)) is plain
    assert satisfies(declared, requirement(True)) is implied
    assert is_declared(declared, ("elicitation", "form")) is plain
