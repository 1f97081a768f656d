"""Without the sandbox's package, names that need it say what to install, to programs that read all names as well."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

# As freezegun does, which skips names that raise ImportError, AttributeError or TypeError.
READ: Final = """
import sys
sys.modules["pydantic_monty"] = None
from mcp_generated import LocalError, code_mode
missing = []
for name in dir(code_mode):
    try:
        getattr(code_mode, name)
    except ImportError as error:
        assert isinstance(error, LocalError)
        missing.append(str(error))
print(missing[0])
"""


def test_a_missing_package_is_an_import_error_that_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("code mode needs pydantic-monty: pip install 'mcp-generated[code]'"), done.stderr
