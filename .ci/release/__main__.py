"""Check everything that a release needs, write what would be uploaded, and stop before the upload.

Without `--tag` it is a rehearsal: changes without a commit, fragments, and results of benchmarks that are older than
the code are remarks, not refusals. `--without PART` leaves a part out, and the report says so; with a tag, none may be.
"""

from __future__ import annotations

import argparse
import sys
import time

from .packages import audit, build, conformance, digests, generated, install, sbom
from .project import ROOT, Part, RefusedError, Release, log
from .sources import benchmarks, changelog, versions, workflow

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
PARTS = (
    Part("versions", "one version everywhere, no draft, no change without a commit", versions),
    Part("changelog", "an entry for the version, no fragment that is not in it", changelog),
    Part("workflow", "trusted publishing and attestations, after these checks", workflow),
    Part("benchmarks", "no result is older than the code that it measures", benchmarks),
    Part("audit", "no locked package has a known vulnerability", audit),
    Part("generated", "generated/ is up to date", generated),
    Part("build", "wheel and sdist of each distribution", build),
    Part("install", "wheel and sdist work in empty environments, on each Python", install),
    Part("sbom", "a software bill of materials for each distribution", sbom),
    Part("conformance", "the official conformance suite", conformance),
)


def main() -> int:
    """Run the parts, print the report, and return the exit code: 1 if a part refuses."""
    parser = argparse.ArgumentParser(prog="nox -s release --", description=__doc__)
    names = [part.name for part in PARTS]
    parser.add_argument("--tag", default="", help="the tag of the release, such as v0.2.0")
    parser.add_argument("--without", action="append", default=[], choices=names, help="leave out a part")
    parser.add_argument("--only", action="append", default=[], choices=names, help="run only this part")
    parser.add_argument("--python", default=sys.executable, help="the Python with the packages of the extra dev")
    parser.add_argument("--interpreter", action="append", default=[], help="install on this Python; default: all")
    options = parser.parse_args()
    left_out = {*options.without, *(name for name in names if options.only and name not in options.only)}
    if options.tag and left_out:
        parser.error(f"a release leaves nothing out, and so not {', '.join(sorted(left_out))}")
    release = Release(ROOT, options.tag, options.python, options.interpreter or PYTHONS)
    release.build.mkdir(parents=True, exist_ok=True)
    rows, failed, start = [], 0, time.monotonic()
    for part in PARTS:
        if part.name in left_out:
            rows.append((part, "left out", 0.0, ""))
            continue
        log(f"== {part.name}: {part.checks}")
        release.notes = []
        begun = time.monotonic()
        verdict = "holds"
        try:
            part.run(release)
        except RefusedError as error:
            verdict, failed = "**refused**", failed + 1
            release.note(str(error))
        rows.append((part, verdict, time.monotonic() - begun, "; ".join(release.notes)))
        log(f"   {verdict.strip('*')} after {rows[-1][2]:.0f} s: {rows[-1][3]}")
    report = text(release, rows, time.monotonic() - start)
    (release.build / "report.md").write_text(report, encoding="utf-8")
    print(report)
    return int(failed > 0)


def text(release: Release, rows: list[tuple[Part, str, float, str]], seconds: float) -> str:
    """Return the report of a run as Markdown."""
    kind = f"Release {release.tag}" if release.tag else f"Rehearsal of {release.version()}"
    lines = [f"# {kind}", "", f"Commit {release.git('rev-parse', 'HEAD')}, {seconds:.0f} s.", ""]
    lines += ["| part | checks | result | s | remarks |", "|---|---|---|---:|---|"]
    for part, verdict, taken, remarks in rows:
        cell = remarks.replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {part.name} | {part.checks} | {verdict} | {taken:.0f} | {cell} |")
    lines += ["", "Nothing was uploaded. An upload would have:", "", *(f"    {line}" for line in digests(release))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
