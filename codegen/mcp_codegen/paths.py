"""Where schema/, templates/ and the runtime are: beside codegen/ in a checkout; in an installed wheel the first two are
inside the package, and the runtime is beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .errors import CodegenError

# Folders of templates: a file in an earlier one stands before the file of that name in a later one.
Templates = tuple[Path, ...]

PACKAGE: Final = Path(__file__).resolve().parent
CHECKOUT: Final = PACKAGE.parent.parent


def in_checkout() -> bool:
    """Whether this package runs from the repository, editable installs included."""
    return PACKAGE.parent.name == "codegen" and (CHECKOUT / "pyproject.toml").is_file()


def data_path(folder: str) -> Path:
    """`schema` or `templates`."""
    return CHECKOUT / folder if in_checkout() else PACKAGE / folder


def template_folders(own: Path | None = None) -> Templates:
    """Our templates, and before them those of a folder that overrides some. Raises CodegenError for a file in it that
    overrides nothing, and for a folder without one."""
    ours = data_path("templates")
    if own is None:
        return (ours,)
    files = [path.relative_to(own) for path in sorted(own.rglob("*.jinja2"))]
    if not files:
        raise CodegenError(f"{own}: there is no folder of that name with a *.jinja2 file in it")
    if unknown := [str(file) for file in files if not (ours / file).is_file()]:
        known = ", ".join(sorted(str(path.relative_to(ours)) for path in ours.rglob("*.jinja2")))
        raise CodegenError(f"{own}: {', '.join(unknown)} overrides none of our templates, which are {known}")
    return (own, ours)


def runtime_home() -> Path:
    """The source of the runtime, to be copied; it is never imported here."""
    return CHECKOUT / "runtime" / "mcp_runtime" if in_checkout() else PACKAGE.parent / "mcp_runtime"


def default_output() -> Path:
    """Where generated packages go if nothing else is said: generated/ of a checkout, else ./mcp_generated."""
    return CHECKOUT / "generated" / "mcp_generated" if in_checkout() else Path("mcp_generated")
