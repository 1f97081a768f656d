"""`llms.txt`, an index of the documentation for language models, and `llms-full.txt`, all of it as one text."""

from __future__ import annotations

import re
from typing import Final

from website.markdown import without_comments
from website.navigation import Section

_TARGET: Final = re.compile(r"^\([a-z0-9-]+\)=\n+", re.M)
_DIRECTIVE: Final = re.compile(r"^```\{(?:toctree|raw)\}.*?^```\n?", re.M | re.S)


def index(home: str, sections: list[Section], texts: dict[str, str]) -> str:
    """Return llms.txt: the first paragraph of the home page, and for each section the pages with their first sentences.

    Args:
        home: The text of the home page.
        sections: The sections of the site.
        texts: The texts of the pages, by their paths on the site.
    """
    parts = [f"# {title(home)}\n", f"> {summary(home)}\n"]
    for section in sections:
        rows = [
            f"- [{title(texts[page.path])}]({page.path.removesuffix('.md')}.html): {summary(texts[page.path])}"
            for page in section.pages
        ]
        parts.append(f"## {section.title}\n\n" + "\n".join(rows) + "\n")
    parts.append("## Optional\n\n- [All pages as one text](llms-full.txt)\n")
    return "\n".join(parts)


def full(texts: dict[str, str]) -> str:
    """Return llms-full.txt: all pages, without what only the build needs."""
    return "\n\n".join(f"<!-- {path} -->\n\n{plain(text).strip()}" for path, text in texts.items()) + "\n"


def plain(text: str) -> str:
    """Return a page without comments, anchors and directives of the build."""
    return _TARGET.sub("", _DIRECTIVE.sub("", without_comments(text)))


def title(text: str) -> str:
    """Return the title of a page."""
    heading = re.search(r"^# (.+)$", text, re.M)
    return heading[1].replace("`", "") if heading else ""


def summary(text: str) -> str:
    """Return the first sentence of a page's first paragraph, as one line without links."""
    for block in re.split(r"\n\s*\n", plain(text)):
        paragraph = " ".join(block.split())
        if paragraph and not paragraph.startswith(("#", "|", "`" * 3, "*", "<")):
            linked = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", paragraph)
            return re.split(r"(?<=\.)\s", linked)[0].rstrip(":")
    return ""
