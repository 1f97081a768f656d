"""What Sphinx reads: all pages of the site, the explorer and the texts for language models."""

from __future__ import annotations

import shutil
from pathlib import Path

from website import charts, differences, llms, markdown, navigation, reference

_HERE = Path(__file__).parent


def write_source(folder: Path, explorer: str) -> None:
    """Write the pages and the settings of the site into an empty folder.

    Args:
        folder: Where to write; what is in it is removed.
        explorer: The HTML page of `mcp-codegen explore`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = page_texts()
    paths = navigation.pages()
    files = {path: file for file, path in paths.items()}
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shown = markdown.site_page(text, files[path], paths) if path in files else text
        target.write_text(shown + _toctree(path), encoding="utf-8")
    shutil.copy(_HERE / "conf.py", folder / "conf.py")
    shutil.copytree(_HERE / "static", folder / "static")
    extra = folder / "extra"
    extra.mkdir()
    (extra / "schema-explorer.html").write_text(explorer, encoding="utf-8")
    home = texts["index.md"]
    (extra / "llms.txt").write_text(llms.index(home, navigation.sections(), texts), encoding="utf-8")
    (extra / "llms-full.txt").write_text(llms.full(texts), encoding="utf-8")


def page_texts() -> dict[str, str]:
    """Return the text of each page by its path on the site, in the order of the navigation."""
    paths = {path: file for file, path in navigation.pages().items()}
    generated = {"performance.md": charts.page(), **differences.pages(), **dict(reference.pages())}
    order = ["index.md", *(page.path for section in navigation.sections() for page in section.pages)]
    order += [path for path in (*paths, *generated) if path not in order]
    return {path: paths[path].read_text(encoding="utf-8") if path in paths else generated[path] for path in order}


def _toctree(path: str) -> str:
    """Return what the home page, and pages with pages below them, need for the navigation."""
    if path == "index.md":
        return "".join(
            _hidden([f"{page.name} <{page.path}>" if page.name else page.path for page in section.pages], section.title)
            for section in navigation.sections()
        )
    if path == "explorer.md":
        link = '<a href="schema-explorer.html">Open the explorer of the versions of this release</a>'
        return f"\n```{{raw}} html\n<p>{link}</p>\n```\n"
    if path == "diff.md":
        return differences.list_of_pages() + _hidden(list(differences.pages()))
    if path == "adr/README.md":
        return _hidden([record.name for record in navigation.decisions()])
    return ""


def _hidden(entries: list[str], caption: str = "") -> str:
    lines = "\n".join(entries)
    titled = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{titled}\n{lines}\n```\n"
