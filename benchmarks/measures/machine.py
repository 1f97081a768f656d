"""When and where something is measured, for the captions of results."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path


def measured() -> str:
    """Return a sentence with the day and the machine: its system, processors and their model, if the system has it."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"Measured {datetime.now(UTC):%Y-%m-%d} on {system}, {os.cpu_count()} processors{_model()}."


def _model() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        match = None
    name = match[1].strip() if match else platform.processor()
    return f" ({name})" if name else ""
