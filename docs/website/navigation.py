"""The sections of the site: which file becomes which page."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
_GENERATED: Final = "generated:"


class Page(NamedTuple):
    """A page of the site.

    Args:
        path: Its path on the site.
        file: The file that it is made of, or None if the build writes it.
        name: Its name in the navigation, if that is not its title.
    """

    path: str
    file: Path | None
    name: str = ""


class Section(NamedTuple):
    """A section of the navigation."""

    title: str
    pages: tuple[Page, ...]


def sections() -> list[Section]:
    """Return the sections of navigation.toml, in order."""
    with (Path(__file__).parent / "navigation.toml").open("rb") as file:
        entries = tomllib.load(file)["section"]
    return [Section(entry["title"], tuple(_page(page) for page in entry["pages"])) for entry in entries]


def pages() -> dict[Path, str]:
    """Return the path on the site of each file that becomes a page: those of the sections, the home page, decisions."""
    files = {page.file: page.path for section in sections() for page in section.pages if page.file is not None}
    files[ROOT / "docs" / "index.md"] = "index.md"
    files |= {record: f"adr/{record.name}" for record in decisions()}
    return files


def decisions() -> list[Path]:
    """Return the records of decisions, in order; the index of decisions is their parent page."""
    return sorted((ROOT / "docs" / "adr").glob("0*.md"))


def _page(entry: str | dict[str, str]) -> Page:
    if isinstance(entry, dict):
        return Page(entry["as"], ROOT / entry["file"], entry.get("title", ""))
    if entry.startswith(_GENERATED):
        return Page(entry.removeprefix(_GENERATED), None)
    return Page(entry.removeprefix("docs/"), ROOT / entry)
