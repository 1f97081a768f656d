"""Small functions of the official SDK: the names of tools, and the order of protocol versions."""

from __future__ import annotations

import pytest

import mcp_generated.compat  # noqa: F401 - It has the protocol versions.
from mcp_products.compat.components import validate_and_warn_tool_name, validate_tool_name
from mcp_products.compat.forms.protocol_versions import KNOWN_PROTOCOL_VERSIONS, is_version_at_least


@pytest.mark.parametrize(
    ("name", "is_valid", "warning"),
    [
        ("get_user-1.0", True, None),
        ("a" * 128, True, None),
        ("", False, "cannot be empty"),
        ("a" * 129, False, "maximum length of 128 characters (current: 129)"),
        ("get user", False, "invalid characters: ' '"),
        ("name\n", False, r"'\n'"),
        ("-name", True, "starts or ends with a dash"),
        ("name.", True, "starts or ends with a dot"),
    ],
)
def test_a_name_is_checked_and_the_log_says_what_speaks_against_it(
    name: str, is_valid: bool, warning: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    warnings = validate_tool_name(name).warnings
    assert validate_and_warn_tool_name(name) is is_valid
    assert (warnings == []) if warning is None else (warning in warnings[0])
    assert (warning or "") in caplog.text and bool(caplog.records) == bool(warnings)


def test_protocol_versions_have_an_order() -> None:
    assert tuple(sorted(KNOWN_PROTOCOL_VERSIONS)) == KNOWN_PROTOCOL_VERSIONS
    assert is_version_at_least("2025-11-25", "2025-06-18") and is_version_at_least("2025-06-18", "2025-06-18")
    assert not is_version_at_least("2025-03-26", "2025-06-18") and not is_version_at_least("1999-01-01", "2024-11-05")
    with pytest.raises(ValueError, match="'1999-01-01' is none of the protocol versions 2024-11-05"):
        is_version_at_least("2025-06-18", "1999-01-01")
