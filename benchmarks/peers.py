"""Names of packages of other projects go in, the Python of a virtual environment that holds them comes out."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parent.parent / "build" / "peers"


def environment(name: str, *requirements: str) -> Path:
    """Make the environment once, under build/peers/, and give its interpreter."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    done = folder / "installed.txt"
    if not done.exists() or done.read_text().split() != list(requirements):
        print(f"installing {' '.join(requirements)} into build/peers/{name} …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        done.write_text("\n".join(requirements))
    return python
