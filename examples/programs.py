"""Run the program of an example as `python -m examples.NAME`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def run_program(main: str, default: str, *others: str) -> None:
    """Run a script that is beside the module `__main__` of an example, as if it were started by its path.

    Args:
        main: The path of that module.
        default: The name of the script that runs.
        others: The names of scripts that run if the first argument is their name.
    """
    folder = Path(main).parent
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    name = first if first in (default, *others) else default
    script = str(folder / f"{name}.py")
    sys.argv = [script, *sys.argv[1 + (name == first) :]]
    sys.path.insert(0, str(folder))  # The modules of an example import one another as scripts do.
    runpy.run_path(script, run_name="__main__")
