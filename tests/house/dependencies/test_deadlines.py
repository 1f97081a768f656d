"""The deadline of a test: what the test installs first does not count."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from support import peers


@pytest.mark.deadline(0.1)
async def test_installing_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", tmp_path / "peers")
    monkeypatch.setattr(peers, "ROOT", tmp_path)

    def slow_registry(folder: Path) -> None:
        folder.mkdir()
        time.sleep(1.0)

    folder = peers.installed("slow@1.0.0", slow_registry)
    await asyncio.sleep(0.01)  # Here the deadline would end the test.
    assert (folder / "installed.txt").read_text() == "slow@1.0.0"
