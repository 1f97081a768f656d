"""Build the site: `python -m website [--output DIR]`, with docs/ in PYTHONPATH and the extra `docs` installed."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from website.navigation import ROOT
from website.source import write_source


def main() -> int:
    """Write the source of the site, and let Sphinx build it; a warning, such as a broken link, is an error."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="the folder of the site")
    parser.add_argument("--source-only", action="store_true", help="write what Sphinx reads, and do not run it")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the extra `docs`")
    options = parser.parse_args()
    source = options.output.with_name(f"{options.output.name}-source")
    write_source(source, _explorer())
    if options.source_only:
        return 0
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    command = [options.python, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
    # Warnings are about what Sphinx has read before as well, so the site is built from nothing.
    command += ["--fresh-env", "--write-all", str(source), str(options.output)]
    code = subprocess.run(command, env={**os.environ, "SITE_RELEASE": version}, check=False).returncode
    _name_heading_levels(options.output)
    return code


def _name_heading_levels(folder: Path) -> None:
    """Give the headings of the navigation the level that assistive technology needs (WAI-ARIA), and Furo leaves out."""
    heading = '<p class="caption" role="heading"'
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(f"{heading}>", f'{heading} aria-level="2">'), encoding="utf-8")


def _explorer() -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "explorer.html"
        command = [sys.executable, "-m", "mcp_codegen", "explore", "--output", str(page)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return page.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
