"""When and where something is measured, for the captions of results."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path


def measured() -> str:
    """Return a sentence with the day, the commit and the machine: its system, processors and their model, if the system
    has it. The row of benchmarks/results/results.toml gets the same day and commit."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"Measured {datetime.now(UTC):%Y-%m-%d}{_commit()} on {system}, {os.cpu_count()} processors{_model()}."


def _commit() -> str:
    """Return the commit of the checkout, and if it has changes; an empty text without git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        # Results are written while others are measured.
        code = ["status", "--porcelain", "-uno", "--", ":/", ":(exclude,top)benchmarks/results"]
        changes = subprocess.run([*git, *code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f" at {commit.stdout.strip()}{' with changes' * bool(changes.stdout.strip())}"


def _model() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        match = None
    name = match[1].strip() if match else platform.processor()
    return f" ({name})" if name else ""
