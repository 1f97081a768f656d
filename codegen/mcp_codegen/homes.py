"""Where schema/ and templates/ are: beside codegen/ in a checkout, inside the package in an installed wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
CHECKOUT: Final = PACKAGE.parent.parent


def in_checkout() -> bool:
    """Whether this package runs from the repository, editable installs included."""
    return PACKAGE.parent.name == "codegen" and (CHECKOUT / "pyproject.toml").is_file()


def home(folder: str) -> Path:
    """`schema` or `templates`."""
    return CHECKOUT / folder if in_checkout() else PACKAGE / folder


def default_output() -> Path:
    """Where generated packages go if nothing else is said: generated/ of a checkout, else ./mcp_generated."""
    return CHECKOUT / "generated" / "mcp_generated" if in_checkout() else Path("mcp_generated")
