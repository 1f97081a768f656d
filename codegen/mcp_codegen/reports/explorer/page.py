"""The explorer: one HTML page that loads no other file.

Schema text is untrusted: the page contains it as JSON in which no tag can begin, and the script inserts it as text. The
content security policy of the page allows that one script and that one style, and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

_ESCAPES: Final[Mapping[str, str]] = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def page(content: Mapping[str, Any], templates: Path) -> str:
    """Return the page, made from the templates in `explore/`."""
    folder = templates / "explore"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, autoescape=True
    )
    script, style = ((folder / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'"
    return environment.get_template("page.html.jinja2").render(
        content=Markup(_json(content)),
        script=Markup(script),
        style=Markup(style),
        policy=policy,
        generator=version("mcp-generated"),
    )


def _json(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return "".join(_ESCAPES.get(char, char) for char in text)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
