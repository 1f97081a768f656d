"""How large a file of a skill may be: as many bytes as the limit says, and not one more."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_products.skills.directory import SafeDirectory, UnservableFileError


@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"x" * size)
    assert SafeDirectory(tmp_path).read(("a",), 10)[0] == b"x" * size


@pytest.mark.parametrize("size", [11, 1000])
def test_a_larger_file_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"x" * size)
    with pytest.raises(UnservableFileError, match="a has more than 10 bytes"):
        SafeDirectory(tmp_path).read(("a",), 10)
