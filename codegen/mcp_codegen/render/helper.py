"""The program of the second process: it writes declarations and formats modules, as the first process asks.

With the argument `declarations` it imports what it needs for them before it is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from ..helper_process import answer_parent
from .source import format_text
from .written_modules import import_all, written_module

WORK: Final[dict[str, Callable[[Any], object]]] = {"declarations": written_module, "format": format_text}

if __name__ == "__main__":
    if "declarations" in sys.argv:
        import_all()
    answer_parent(WORK)
