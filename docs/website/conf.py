"""The settings of Sphinx. What it reads is written by `python -m website` before."""

from __future__ import annotations

import os

project = "mcp-codegen"
author = "the authors of mcp-codegen"
release = os.environ.get("SITE_RELEASE", "")
extensions = ["myst_parser"]
myst_heading_anchors = 4
# Blocks of output have places where anything may stand, which are not JSON.
suppress_warnings = ["misc.highlighting_failure"]
nitpicky = True

html_theme = "furo"
html_title = f"{project} {release}".strip()
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "static/favicon.svg"
html_extra_path = ["extra"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# Colours of the code that reach the contrast of 4.5 to 1 on the background of the theme.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
