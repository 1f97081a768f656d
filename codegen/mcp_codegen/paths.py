"""The paths of schema/, templates/ and the runtime, and the pins of a revision in schema/.

In a checkout they are at the top of the repository. In an installed wheel, schema/ and templates/ are inside this
package, and the runtime is the sibling package.
"""

from __future__ import annotations

import hashlib
import keyword
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from .errors import CodegenError, SchemaError

# Folders of templates: a file in an earlier folder overrides the file of that name in a later one.
Templates = tuple[Path, ...]

PACKAGE: Final = Path(__file__).resolve().parent
CHECKOUT: Final = PACKAGE.parent.parent
_OURS: Final = frozenset({"mcp_codegen", "mcp_generated", "mcp_products", "mcp_runtime"})


def in_checkout() -> bool:
    """Return True if this package runs from the repository, editable installs included."""
    return PACKAGE.parent.name == "codegen" and (CHECKOUT / "pyproject.toml").is_file()


def data_path(folder: str) -> Path:
    """Return the path of `schema` or `templates`."""
    return CHECKOUT / folder if in_checkout() else PACKAGE / folder


def template_folders(overrides: Path | None = None) -> Templates:
    """Return the folders to search for templates: `overrides`, if there is one, then the built-in folder. Raises
    CodegenError for a folder without a template, and for a file that overrides no built-in template."""
    builtin = data_path("templates")
    if overrides is None:
        return (builtin,)
    files = [path.relative_to(overrides) for path in sorted(overrides.rglob("*.jinja2"))]
    if not files:
        raise CodegenError(
            f"{overrides}: this folder does not exist or has no *.jinja2 file; pass a folder with templates"
        )
    if unknown := [str(file) for file in files if not (builtin / file).is_file()]:
        names = ", ".join(sorted(str(path.relative_to(builtin)) for path in builtin.rglob("*.jinja2")))
        raise CodegenError(
            f"{overrides}: {', '.join(unknown)} overrides no built-in template; the built-in templates are {names}"
        )
    return (overrides, builtin)


def read_toml(path: Path, what: str = "", kind: type[CodegenError] = CodegenError) -> dict[str, Any]:
    """Return the tables of a file. Raises an error of this kind if it cannot be read as `what`, such as " as pins"."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise kind(f"{path}: cannot be read{what}: {error}") from error


def generator_version() -> str:
    """Return the version of this project: in a checkout that of its pyproject.toml, whatever was installed once."""
    if in_checkout():
        return str(read_toml(CHECKOUT / "pyproject.toml")["project"]["version"])
    return version("mcp-generated")


def source_of(package: str) -> Path:
    """Return the folder with the source of the core, `mcp_runtime`, or of the products, `mcp_products`: they are copied
    and never imported here."""
    folder = CHECKOUT / package.removeprefix("mcp_") if in_checkout() else PACKAGE.parent
    return folder / package


def default_output() -> Path:
    """Return the default output folder: generated/ for a command that runs inside of a checkout, else ./mcp_bindings,
    which does not hide the installed package."""
    if in_checkout() and Path.cwd().resolve().is_relative_to(CHECKOUT):
        return CHECKOUT / "generated" / "mcp_generated"
    return Path("mcp_bindings")


def package_folder(folder: Path) -> Path:
    """Return the folder of a package to write. Raises CodegenError for a name that cannot be imported, and for one that
    hides another package."""
    name = folder.resolve().name
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CodegenError(
            f"{folder}: {name!r} cannot be imported: the folder of a package needs the name of a Python identifier, "
            "such as --output mcp_bindings"
        )
    generated = CHECKOUT / "generated" if in_checkout() else None
    if name in sys.stdlib_module_names or (name in _OURS and folder.resolve().parent != generated):
        raise CodegenError(
            f"{folder}: a package {name!r} hides the installed one of this name; choose another name, "
            "such as --output mcp_bindings"
        )
    return folder


# pins.toml of a revision: the official files that the normalized schema was made from, and the revision that it
# follows.


@dataclass(frozen=True, slots=True)
class Pins:
    """The pins of one revision. `sha256` has one digest for each official file, by file name. `follows` is empty for
    the oldest revision. `like` is the revision whose overlay rows apply too, for a draft that was made from it."""

    revision: str
    follows: str
    source: str
    commit: str
    sha256: dict[str, str]
    like: str = ""

    def text(self) -> str:
        """Return the text of the file, as `import` writes it."""
        lines = [
            f"# The sources of the normalized schema of {self.revision}. Written by `mcp-codegen import`; do not edit.",
            f'revision = "{self.revision}"',
            f'follows = "{self.follows}"',
            f'source = "{self.source}"',
            f'commit = "{self.commit}"',
            *([f'like = "{self.like}"'] if self.like else []),
            "",
            "[sha256]",
            *(f'"{name}" = "{digest}"' for name, digest in self.sha256.items()),
        ]
        return "\n".join(lines) + "\n"


def read_pins(path: Path) -> Pins:
    """Return the pins in a file; raise SchemaError if it is not one."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        pins = Pins(**table)
    except (OSError, ValueError, TypeError) as error:
        raise SchemaError(f"{path}: cannot be read as pins: {error}; import the revision again") from error
    if pins.revision != path.parent.name:
        raise SchemaError(
            f"{path}: pins revision {pins.revision!r}, but is in the folder {path.parent.name!r}; move it or "
            "import the revision again"
        )
    return pins


def digest(data: bytes) -> str:
    """Return the sha256 of a file, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
