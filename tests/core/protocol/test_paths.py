"""Path traversal is found in every encoding, and ordinary paths are accepted."""

from __future__ import annotations

import pytest

from mcp_runtime.protocol.uris import has_separator, has_traversal, is_absolute


@pytest.mark.parametrize(
    "path", ["..", "a/..", "../a", "a/../b", ".", "a\\..\\b", "a/%2e%2E/b", "a%252f..%252fb", "a/ ../b", "a\0", "%00"]
)
def test_traversal_is_found(path: str) -> None:
    assert has_traversal(path)


@pytest.mark.parametrize("path", ["", "a", "a/b", "a..b", "...", "a/.hidden", "100%", "%41/%42", "a/%252525"])
def test_ordinary_paths_have_no_traversal(path: str) -> None:
    assert not has_traversal(path)


def test_separators_and_absolute_paths_are_found_in_every_encoding() -> None:
    assert all(map(has_separator, ["a/b", "a\\b", "a%2fb", "a%255cb"])) and not has_separator("a b")
    assert all(map(is_absolute, ["/a", "%2fa", "C:/a", "\\a", ""])) and not any(map(is_absolute, ["a/b", "ab:c"]))
