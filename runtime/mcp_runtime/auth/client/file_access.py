"""Who can read a file of credentials on Windows, where a mode says nothing about that."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from ...errors import LocalError

_OWNER_RIGHTS: Final = "*S-1-3-4"  # Stands for whoever owns the file, in any language of Windows.
_SECONDS: Final = 10.0


def restrict_to_owner(path: str) -> None:
    """On Windows, let only the owner of a file read and change it. Raises LocalError if that is not possible.

    Elsewhere, the mode of the file does so.
    """
    if sys.platform == "win32":
        icacls = os.path.join(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32", "icacls.exe")
        command = [icacls, path, "/inheritance:r", "/grant:r", f"{_OWNER_RIGHTS}:F"]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=_SECONDS, creationflags=subprocess.CREATE_NO_WINDOW
            )
            refused = done.returncode != 0
        except (OSError, subprocess.SubprocessError):
            refused = True
        if refused:
            raise LocalError(
                f"{path}: FileTokenStorage cannot keep other users from reading it; use KeyringTokenStorage instead"
            )
