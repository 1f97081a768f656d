"""Pictures as SVG, made from the text of a block.

A `sequence` shows messages between parties, `layers` rows of boxes, and `steps` boxes that arrows connect.
The first line of a block is the title, which screen readers read; a page without the site shows the text itself.
Colours are those of the page, so that a picture fits light and dark.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final, NamedTuple

from website import svg

KINDS: Final = ("sequence", "layers", "steps")
WIDTH: Final = 720  # Units of the SVG, about pixels on a wide page.
_MESSAGE: Final = re.compile(r"(?P<sender>[^:]+?) (?P<arrow>-->|->) (?P<receiver>[^:]+?): (?P<text>.+)")
_NOTE: Final = re.compile(r"note (?P<party>[^:]+): (?P<text>.+)")


class PictureError(ValueError):
    """Raised if a line of a picture has no form that is supported; the message has the line."""


class _Picture(NamedTuple):
    title: str
    lines: list[str]


def figure(kind: str, text: str) -> str:
    """Return an HTML figure with the picture of a block; on a narrow page it scrolls by itself."""
    picture = _parsed(text)
    image = {"sequence": _sequence, "layers": _layers, "steps": _steps}[kind](picture)
    title = escape(picture.title, quote=True)
    return (
        f'<figure class="picture"><div class="picture-scroll" tabindex="0" role="group" aria-label="{title}">'
        f"{image}</div><figcaption>{title}</figcaption></figure>"
    )


def _parsed(text: str) -> _Picture:
    title, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise PictureError(f"the picture {title!r} has a title and no lines")
    return _Picture(title, lines)


def _sequence(picture: _Picture) -> str:
    """Draw messages between parties; the first line has the parties, separated by commas."""
    parties = [name.strip() for name in picture.lines[0].split(",")]
    column = WIDTH / len(parties)
    centers = {name: column * (index + 0.5) for index, name in enumerate(parties)}
    shapes: list[str] = []
    y = 62.0
    for line in picture.lines[1:]:
        if note := _NOTE.fullmatch(line):
            y += 8
            shapes.append(_note(note["text"], _center(centers, note["party"], line), y))
            y += 34
        elif message := _MESSAGE.fullmatch(line):
            y += 26
            start, end = (_center(centers, message[side], line) for side in ("sender", "receiver"))
            shapes.append(svg.arrow(start, y, end, y, dashed=message["arrow"] == "-->"))
            shapes.append(svg.text((start + end) / 2, y - 7, message["text"], small=True, over_lines=True))
            y += 14
        else:
            raise PictureError(f"neither a message nor a note: {line!r}")
    height = y + 18
    lifelines = [svg.line(center, 44, center, height - 8, dashed=True, faint=True) for center in centers.values()]
    box = min(column - 16, 150)
    heads = [svg.box(center - box / 2, 8, box, 36, name, strong=True) for name, center in centers.items()]
    return svg.image(WIDTH, height, picture.title, [*lifelines, *shapes, *heads])


def _center(centers: dict[str, float], party: str, line: str) -> float:
    if party not in centers:
        raise PictureError(f"{party!r} is not one of {', '.join(centers)}: {line!r}")
    return centers[party]


def _note(text: str, center: float, y: float) -> str:
    width = min(WIDTH, svg.width(text) + 20)
    x = min(max(4, center - width / 2), WIDTH - width - 4)
    return svg.box(x, y, width, 26, text, small=True)


def _layers(picture: _Picture) -> str:
    """Draw a row of boxes for each line; `|` separates the boxes, and `: ` a name from what it does."""
    shapes: list[str] = []
    for row, line in enumerate(picture.lines):
        boxes = [box.strip() for box in line.split("|")]
        width = (WIDTH - 8 - 8 * (len(boxes) - 1)) / len(boxes)
        for index, box in enumerate(boxes):
            name, _, what = box.partition(": ")
            shapes.append(svg.box(4 + index * (width + 8), 4 + row * 58, width, 50, name, what, strong=True))
    return svg.image(WIDTH, 58 * len(picture.lines) + 4, picture.title, shapes)


def _steps(picture: _Picture) -> str:
    """Draw boxes that arrows connect, a row for each line; `->` separates them, and `: ` a name from what it is."""
    shapes: list[str] = []
    for row, line in enumerate(picture.lines):
        boxes = [box.strip() for box in line.split("->")]
        gap = 26
        width = (WIDTH - 8 - gap * (len(boxes) - 1)) / len(boxes)
        y = 4 + row * 76
        for index, box in enumerate(boxes):
            name, _, what = box.partition(": ")
            x = 4 + index * (width + gap)
            shapes.append(svg.box(x, y, width, 54, name, what, strong=True))
            if index:
                shapes.append(svg.arrow(x - gap + 2, y + 27, x - 2, y + 27))
    return svg.image(WIDTH, 76 * len(picture.lines) - 14, picture.title, shapes)
