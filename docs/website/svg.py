"""Shapes of SVG: boxes with text, arrows and bars, in the colours of the page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

_LETTER: Final = 7.3  # The mean width of a letter of 13 pixels, in units.
_SMALL: Final = 6.4  # That of a letter of 12 pixels.


def image(width: float, height: float, title: str, shapes: Iterable[str]) -> str:
    """Return an image of these shapes; its colours are the classes of site.css."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(shapes)}</svg>'
    )


def width(label: str) -> float:
    """Return about how wide a small text is, in units."""
    return len(label) * _SMALL


def text(
    x: float, y: float, label: str, *, small: bool = False, anchor: str = "middle", over_lines: bool = False
) -> str:
    """Return a line of text at a point: its middle, or what `anchor` names. Over lines, it hides what is below it."""
    kind = " ".join(["small" if small else "label", *(["over-lines"] * over_lines)])
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(label)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False, faint: bool = False) -> str:
    """Return a line between two points."""
    kind = " ".join(["line", *(["dashed"] * dashed), *(["faint"] * faint)])
    return f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


def arrow(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    """Return a horizontal line with a head at its end."""
    back = -7 if x2 > x1 else 7
    return line(x1, y1, x2, y2, dashed=dashed) + f'<path class="head" d="M{x2:g} {y2:g}l{back} -4v8z"/>'


def bar(x: float, y: float, length: float, height: float, kind: str) -> str:
    """Return a bar of a chart; the kind chooses its colour."""
    return f'<rect class="bar {kind}" x="{x:g}" y="{y:g}" width="{max(length, 1):g}" height="{height:g}" rx="2"/>'


def box(x: float, y: float, width: float, height: float, *lines: str, strong: bool = False, small: bool = False) -> str:
    """Return a box with a name in its middle, and below it what the other lines have, if they are not empty."""
    name, *others = [
        wrapped for number, one in enumerate(lines) for wrapped in _wrapped(one, width, bool(number)) if one
    ]
    texts = [
        text(x + width / 2, 0, name, small=small),
        *(text(x + width / 2, 0, other, small=True) for other in others),
    ]
    step = 16
    first = y + height / 2 + 4.5 - step * (len(texts) - 1) / 2
    placed = [one.replace('y="0"', f'y="{first + step * index:g}"', 1) for index, one in enumerate(texts)]
    kind = "box strong" if strong else "box"
    rect = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'
    return rect + "".join(placed)


def _wrapped(label: str, width: float, small: bool) -> list[str]:
    """Return a text as the lines that fit a box."""
    limit = max(6, int((width - 10) / (_SMALL if small else _LETTER)))
    lines = [""]
    for word in label.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > limit:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
