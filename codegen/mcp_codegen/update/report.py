"""The report of an update as Markdown: what broke, who is affected, what has no sentence, and what is left to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..diff.changes import DiffChange, Severity
from ..diff.report import DiffReport
from .preparation import RevisionUpdate, Update

_MAX_ROWS: Final = 200  # Of one table: a report is the text of a pull request.
# Changes after which a program that names what is gone does not start, whatever its peer sends.
_NAMES: Final = ("type-removed", "type-renamed", "method-removed", "constant-removed", "method-kind", "type-form")


def as_markdown(update: Update) -> str:
    """Return the report. What a schema or a message of git has in it cannot become markup."""
    snapshot = update.snapshot
    lines = [
        f"# The specification at {_code(snapshot.ref)}",
        "",
        f"Commit {_code(snapshot.commit)} of {snapshot.day}, from {snapshot.source}.",
        "",
        _result(update),
    ]
    for item in update.revisions:
        lines += ["", f"## {item.revision}", *_revision(item)]
    if update.differing:
        names = " ".join(f"--revision {name}" for name in update.differing)
        lines += [
            "",
            "## Releases that differ from what stands here",
            "",
            f"{', '.join(map(_code, update.differing))}. Official files of a release are corrected at times, and "
            "an older commit has older ones.",
            "",
            f"To import them as they are in this commit: {_code(f'mcp-codegen update --ref {snapshot.ref} {names}')}",
        ]
    return "\n".join(lines) + "\n"


def _result(update: Update) -> str:
    if update.findings:
        count = len(update.findings)
        return f"**Stopped: {count} finding{'s' * (count != 1)}. Nothing was written.**"
    if not update.revisions and not update.removed:
        return "**Nothing new: no release that is missing here, and no change of the draft.**"
    names = ", ".join(item.revision for item in update.revisions) or "the draft has become a release"
    modules = sorted(path.stem for path in update.package if path.parent.name == "converters" and path.stem[0] != "_")
    converters = f" It converts by {', '.join(map(_code, modules))}." if modules else ""
    return f"**Written: {names}.** The schemas and the package are new; each revision held a conversation.{converters}"


def _revision(item: RevisionUpdate) -> Iterator[str]:
    if item.definitions:
        yield ""
        follows = f" It follows {item.follows}." if item.follows else ""
        yield f"schema.ts and schema.json agree in {item.definitions} definitions.{follows}"
    if item.findings:
        yield from ("", "### What does not work", "", "| kind | rule | place | finding |", "|---|---|---|---|")
        for finding in item.findings:
            yield _row(finding.kind, finding.rule, _code(finding.at or "the schema"), finding.text)
    for number, report in enumerate(item.diffs):
        title = "What broke" if number == 0 else f"Since {report.older}"
        yield from ("", f"### {title}", "", f"{report.summary()}.")
        yield from _changes(report.changes)
    if item.diffs:
        yield from _affected(item.diffs[0])
    yield from _renames(item)
    yield from _listed("What conversion does not carry", item.converts, "to the revision before it and back")
    yield from _listed("What has no sentence yet", item.undocumented, "rows of schema/docs.toml are empty")
    if not item.findings and item.definitions:
        yield from _remaining(item)


def _changes(changes: Sequence[DiffChange]) -> Iterator[str]:
    """Yield the changes that break, then those that deprecate, as a table; the others as their number."""
    rated = [change for change in changes if change.severity is not Severity.COMPATIBLE]
    rated.sort(key=lambda change: -change.severity)
    if rated:
        yield from ("", "| rule | where | clients | servers | before → after |", "|---|---|---|---|---|")
        for change in rated[:_MAX_ROWS]:
            moved = f"{change.before or 'nothing'} → {change.after or 'nothing'}"
            yield _row(change.rule, _code(change.at), str(change.client), str(change.server), moved)
        if len(rated) > _MAX_ROWS:
            yield from ("", f"{len(rated) - _MAX_ROWS} more; `mcp-codegen diff` has all.")
    added = [change.at for change in changes if change.rule in ("method-added", "method-required", "type-added")]
    if added:
        yield from ("", f"New: {', '.join(map(_code, added[:_MAX_ROWS]))}.")


def _affected(report: DiffReport) -> Iterator[str]:
    """Yield who is affected by the changes that break: each of the two sides, and programs that name what is gone."""
    rows = {
        "clients": [change.at for change in report.changes if change.client is Severity.BREAKING],
        "servers": [change.at for change in report.changes if change.server is Severity.BREAKING],
        "programs that name it": [change.at for change in report.changes if change.rule in _NAMES],
    }
    yield from ("", "### Who is affected", "", "| who | by how many changes | where |", "|---|---:|---|")
    for who, places in rows.items():
        shown = ", ".join(map(_code, places[:12])) + (", …" if len(places) > 12 else "")
        yield _row(who, str(len(places)), shown or "nothing")


def _renames(item: RevisionUpdate) -> Iterator[str]:
    """Yield the rows to write for names that may have changed."""
    if item.renames:
        yield from ("", "### Names that may have changed", "")
        yield (
            f"{len(item.renames)}; the types agree. If a name means the same as before, write its row into "
            "schema/conversions.toml and generate again: without it, conversions drop or refuse what has this name."
        )
        yield from ("", "```toml")
        for rename in item.renames:
            yield from (_plain(line).replace("`", "'") for line in (*rename.row(item.revision).splitlines(), ""))
        yield "```"


def _listed(title: str, entries: Sequence[str], note: str) -> Iterator[str]:
    if entries:
        yield from ("", f"### {title}", "", f"{len(entries)}; {note}.", "")
        yield from (f"* {_code(entry)}" for entry in entries[:_MAX_ROWS])


def _remaining(item: RevisionUpdate) -> Iterator[str]:
    yield from ("", "### What is left to do", "")
    if item.renames:
        yield "* Write the rows of the names that have changed."
    if item.undocumented:
        yield "* Write the sentences of schema/docs.toml, and generate again."
    if any(change.severity is Severity.BREAKING for change in item.diffs[0].changes if item.diffs):
        yield "* Name what breaks in the changelog, and in the migration guide."
    yield f"* Add {_code(item.revision)} to the contract `revisions` of pyproject.toml, and to VERSIONING.md."
    yield "* Run the tests."


def _code(text: str) -> str:
    return f"`{_plain(text).replace('`', chr(39))}`"


def _row(*cells: str) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(text: str) -> str:
    """Return untrusted text in one line, in which no HTML and no mention of a person begins."""
    return " ".join(text.split()).replace("<", "&lt;").replace("@", "@\u200b")
