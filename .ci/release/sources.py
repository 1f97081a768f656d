"""The parts of a release that read the checkout: versions, changelog, benchmark results and the workflow."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from .project import RefusedError, Release

# The oldest result that a rehearsal accepts although the code has changed since.
MAX_AGE = timedelta(days=30)


def versions(release: Release) -> None:
    """Check that one version stands everywhere, and that the tree is what the tag names."""
    version = release.version()
    try:
        Version(version)
    except InvalidVersion:
        raise RefusedError(f"pyproject.toml: {version!r} is not a version; write one such as 0.2.0") from None
    names = {canonicalize_name(one.name) for one in release.distributions()}
    for one in release.distributions():
        if one.version != version:
            raise RefusedError(f"{one.name} has version {one.version!r}, not {version}; set the same one")
        groups = one.project.get("optional-dependencies", {}).values()
        for text in [*one.project.get("dependencies", ()), *(text for group in groups for text in group)]:
            requirement = Requirement(text)
            own = canonicalize_name(requirement.name) == canonicalize_name(one.name)
            if (
                canonicalize_name(requirement.name) in names
                and not own
                and str(requirement.specifier) != f"=={version}"
            ):
                raise RefusedError(f"{one.name} requires {text}; it has to be =={version}")
    headers = {
        match[1]
        for path in sorted((release.root / "generated").rglob("*.py"))
        if (match := re.search(r"enerated by mcp-codegen (\d\S*);", path.read_text(encoding="utf-8")[:400]))
    }
    if headers != {version}:
        raise RefusedError(f"generated/ was made by {', '.join(sorted(headers)) or 'nothing'}; run `nox -s generate`")
    drafts = [path.parent.name for path in release.root.glob("schema/*/pins.toml")]
    if drafts := [name for name in drafts if not re.fullmatch(r"\d{4}-\d\d-\d\d", name)]:
        raise RefusedError(f"schema/{drafts[0]} is not a release of the specification; remove it")
    changed = release.git("status", "--porcelain")
    if release.tag and release.tag != f"v{version}":
        raise RefusedError(f"the tag {release.tag} is not v{version}; tag the commit that has this version")
    if release.tag and changed:
        raise RefusedError(f"the tree has changes without a commit: {changed.splitlines()[0]}; commit them")
    if changed:
        release.note("the tree has changes without a commit")
    release.note(f"{version}; {', '.join(one.name for one in release.distributions())}")


def changelog(release: Release) -> None:
    """Write the notes of this version: the section of CHANGELOG.md, which no fragment is missing from."""
    version = release.version()
    fragments = [path for path in sorted((release.root / "changes").glob("*.md")) if path.name != "README.md"]
    for path in fragments:
        if not re.fullmatch(
            r"[\w+-]+(\.\d+)?\.(added|changed|deprecated|removed|fixed|security)(\.\d+)?\.md", path.name
        ):
            raise RefusedError(f"changes/{path.name}: is not a name of a fragment; changes/README.md has the form")
    if fragments and release.tag:
        raise RefusedError(f"changes/{fragments[0].name} is in no version; run `towncrier build --version {version}`")
    text = (release.root / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = section(text, version)
    if fragments:
        drafted = release.run("towncrier", "build", "--draft", "--version", version, cwd=release.root)
        release.note(f"{len(fragments)} fragments become a section; a tag needs `towncrier build --version {version}`")
        notes = f"{notes}\n{drafted}"
    if not re.search(r"^- \S", notes, re.MULTILINE):
        raise RefusedError(f"CHANGELOG.md: has no entry for {version}; write fragments, and run `towncrier build`")
    release.build.mkdir(parents=True, exist_ok=True)
    (release.build / "notes.md").write_text(notes.strip() + "\n", encoding="utf-8")
    release.note(f"{len(re.findall(r'^- ', notes, re.MULTILINE))} entries")


def section(text: str, version: str) -> str:
    """Return the entries of one version of a changelog; an empty text if it has no section with a day."""
    match = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return match[1] if match else ""


def benchmarks(release: Release) -> None:
    """Check that no result is older than the code that it measures.

    benchmarks/results/results.toml has the commit of each result and the paths that it measures. A result is current if
    the code of these paths is now what it was then: comments, docstrings and layout cost no call anything, and do not
    count. With a tag, all have to be current. A rehearsal accepts others for 30 days, and names them.
    """
    table = tomllib.loads((release.root / "benchmarks" / "results" / "results.toml").read_text(encoding="utf-8"))
    files = {path.name for path in (release.root / "benchmarks" / "results").glob("*.md")}
    if files != table.keys():
        raise RefusedError(f"results.toml and the files beside it differ in {', '.join(sorted(files ^ table.keys()))}")
    old = list(_old_results(release, table))
    for name, day, changed in old:
        text = f"{name} of {day} is older than {changed}"
        if release.tag or date.fromisoformat(day) + MAX_AGE < date.today():
            raise RefusedError(f"{text}; measure it again (`nox -s bench`), and set its commit and day in results.toml")
        release.note(text)
    release.note(f"{len(table) - len(old)} of {len(table)} results are current")


def _old_results(release: Release, table: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each result whose paths have changed since: its name, its day, and the first path."""
    for name, row in table.items():
        commit, day, paths = row["commit"], row["day"], row["measures"]
        try:
            release.git("merge-base", "--is-ancestor", commit, "HEAD")
            release.git("cat-file", "-e", f"{commit}^{{commit}}")
        except RefusedError:
            raise RefusedError(f"results.toml: {name}: {commit} is not a commit of this branch") from None
        if missing := [path for path in paths if not (release.root / path).exists()]:
            raise RefusedError(f"results.toml: {name} measures {missing[0]}, which does not exist; correct its paths")
        command = ("diff", "--name-only", "--no-renames", commit, "--", *paths)
        files = release.git(*command).splitlines() if paths else []
        changed = [path for path in files if not _is_same_code(release, commit, path)]
        if changed:
            yield name, day, changed[0] + (f" and {len(changed) - 1} other files" if changed[1:] else "")


def _is_same_code(release: Release, commit: str, path: str) -> bool:
    """Return True if a file of Python has the statements that it had at a commit; any other file has changed."""
    if not path.endswith(".py") or not (release.root / path).exists():
        return False
    try:
        before = release.git("show", f"{commit}:{path}")
    except RefusedError:  # It is new.
        return False
    return _statements(before) == _statements((release.root / path).read_text(encoding="utf-8"))


def _statements(text: str) -> str:
    """Return the syntax tree of a module without its docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
    return ast.dump(tree)


def workflow(release: Release) -> None:
    """Check that the workflow publishes without a password, with attestations, and after these checks."""
    path = release.root / ".github" / "workflows" / "release.yml"
    for problem in problems(yaml.safe_load(path.read_text(encoding="utf-8"))):
        raise RefusedError(f"{path.name}: {problem}")
    release.note("trusted publishing, provenance and SBOM attestations")


def problems(table: dict[Any, Any]) -> Iterator[str]:
    """Yield what is wrong with the workflow of a release."""
    jobs = table["jobs"]
    steps = {name: [str(step.get("uses") or step.get("run")) for step in job["steps"]] for name, job in jobs.items()}
    publishing = [name for name, uses in steps.items() if any("gh-action-pypi-publish" in use for use in uses)]
    attesting = [name for name, uses in steps.items() if any("actions/attest" in use for use in uses)]
    checking = [name for name, uses in steps.items() if any("nox -s release" in use for use in uses)]
    if table.get("permissions") != {}:
        yield "the permissions of the workflow have to be {}; each job has its own"
    if not publishing or not attesting or not checking:
        yield "it needs jobs with `nox -s release`, with an attestation and with gh-action-pypi-publish"
    for name in publishing:
        job = jobs[name]
        if job["permissions"] != {"id-token": "write"} or "environment" not in job:
            yield f"the job {name} needs an environment, and the permission id-token: write alone"
        if any(step.get("with", {}).get("password") for step in job["steps"]):
            yield f"the job {name} has a password; trusted publishing needs none"
        if not set(_all_needs(jobs, name)) >= {*checking, *attesting}:
            yield f"the job {name} does not need the checks and the attestations"
    for name, job in jobs.items():
        if name not in (*publishing, *attesting) and job.get("permissions", {}).get("id-token"):
            yield f"the job {name} needs no id-token"
        for use in (step["uses"] for step in job["steps"] if "uses" in step):
            if not re.search(r"@[0-9a-f]{40}$", use):
                yield f"{use} names no commit; write the commit of a version, and the version as a comment"


def _all_needs(jobs: dict[str, Any], name: str) -> Iterator[str]:
    needs = jobs[name].get("needs", [])
    for other in [needs] if isinstance(needs, str) else needs:
        yield other
        yield from _all_needs(jobs, other)
