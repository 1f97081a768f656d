"""Pages as Sphinx reads them: links between pages of the site, pictures for blocks of text, no comments of tests."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from website import pictures
from website.navigation import ROOT

_BLOCK: Final = re.compile(r"^```(?P<kind>[\w-]*)\n(?P<text>.*?)^```$", re.M | re.S)
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])+)\]\((?P<target>[^()\s]+)\)")
_CODE: Final = re.compile(r"`[^`\n]*`")
# One in a line of its own goes with its line. None reaches over the end of another: a line may begin with one.
_COMMENT: Final = re.compile(r"^<!--(?:(?!-->).)*-->\n|<!--(?:(?!-->).)*-->", re.M | re.S)


def site_page(text: str, file: Path, paths: dict[Path, str]) -> str:
    """Return the text of a page for the site.

    Args:
        text: The page as it is written.
        file: The file that it is from; links are relative to its folder.
        paths: The path on the site of each file that is a page.
    """
    return outside_of_blocks(without_comments(text), lambda prose: _links(prose, file, paths), _picture)


def without_comments(text: str) -> str:
    """Return a page without the comments that tests and tables need."""
    return _COMMENT.sub("", text)


def outside_of_blocks(text: str, prose: Callable[[str], str], block: Callable[[str, str], str | None]) -> str:
    """Return a page with `prose` applied to the text between blocks, and `block` to the kind and the text of a block;
    where that returns None, the block stays as it is."""
    parts: list[str] = []
    end = 0
    for match in _BLOCK.finditer(text):
        parts.append(prose(text[end : match.start()]))
        parts.append(block(match["kind"], match["text"]) or match[0])
        end = match.end()
    return "".join([*parts, prose(text[end:])])


def links(text: str) -> list[str]:
    """Return the targets of the links of a page."""
    targets: list[str] = []

    def prose(part: str) -> str:
        targets.extend(match["target"] for match in _LINK.finditer(_CODE.sub(lambda code: "x" * len(code[0]), part)))
        return part

    outside_of_blocks(text, prose, lambda kind, block: None)
    return targets


def _links(prose: str, file: Path, paths: dict[Path, str]) -> str:
    """Return prose whose links lead to pages of the site; one to a file that is not a page becomes its path."""

    def link(match: re.Match[str]) -> str:
        name, _, anchor = match["target"].partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return match[0]
        target = (file.parent / name).resolve()
        page = paths.get(target) or paths.get(target / "README.md")
        if page is None:
            relative = target.relative_to(ROOT).as_posix()
            text = match["text"].strip("`")
            return f"`{relative}`" if text in (name, relative, target.name) else f"{text} (`{relative}`)"
        address = os.path.relpath(page, Path(paths[file]).parent)
        return f"[{match['text']}]({address}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(link, prose)


def _picture(kind: str, text: str) -> str | None:
    """Return the picture of a block that describes one, as HTML, or None for code."""
    if kind not in pictures.KINDS:
        return None
    return f"```{{raw}} html\n{pictures.figure(kind, text)}\n```"
