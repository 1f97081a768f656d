"""An update, and its report: the revisions of a snapshot are imported, compared, tried and generated beside what stands
here.

Everything happens in a temporary folder. The result is either the text of all files to write, or a finding for each
place that does not work, and then nothing is written.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from ..catalog import UNCLEAR, SchemaCatalog, check_id
from ..conversion.derive import derive_step
from ..errors import CodegenError, Finding
from ..generate import generate
from ..importer.importer import import_revision
from ..model.overlay import undocumented
from ..paths import digest, template_folders
from ..reports.changes import DiffChange, Severity, deprecations
from ..reports.clarity import clarity_report
from ..reports.compare import compare
from ..reports.renames import Rename, collapse, known_renames, suggested_renames, with_renames
from ..reports.report import DiffReport
from .repository import Snapshot
from .trial import try_revision

# Rows without a sentence in docs.toml, for the names that have none yet.

_ROW: Final = re.compile(r'^("(?:[^"\\]|\\.)*"|[\w-]+)\s*=')
_EMPTY: Final = re.compile(r'^("(?:[^"\\]|\\.)*"|[\w-]+) = ""\n', re.MULTILINE)
_TABLE: Final = re.compile(r"^\[([\w.]+)\]\s*$")
DRAFT: Final = "draft"
# Rules about properties that the source does not define: they are not in its messages.
_OF_UNKNOWN: Final = ("misfit", "closed")
_RELEASE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_ROWS: Final = 200  # Of one table: a report is the text of a pull request.
# Changes after which a program that names what is gone does not start, whatever its peer sends.
_NAMES: Final = ("type-removed", "type-renamed", "method-removed", "constant-removed", "method-kind", "type-form")


def with_stubs(text: str, names: Iterable[str]) -> str:
    """Return the text of docs.toml with an empty row for each of these types (`Name`) and properties (`Type.name`), and
    no other empty row. The rows are in the order of their keys. Raises CodegenError for a text that is not TOML."""
    text = _EMPTY.sub("", text)
    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        raise CodegenError(f"docs.toml: is not TOML: {error}; correct it") from error
    for name in names:
        table = "properties" if "." in name else "types"
        if name not in tables.get(table, {}):
            text = _with_row(text, table, name)
    return text


def _with_row(text: str, table: str, name: str) -> str:
    lines = text.splitlines(keepends=True)
    row = f'{name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)} = ""\n'
    heads = [(number, match[1]) for number, line in enumerate(lines) if (match := _TABLE.match(line))]
    start = next((number for number, head in heads if head == table), None)
    if start is None:
        return text + f"\n[{table}]\n{row}".removeprefix("\n" * (not text))
    end = next((number for number, _ in heads if number > start), len(lines))
    rows = [(number, match[1].strip('"')) for number in range(start + 1, end) if (match := _ROW.match(lines[number]))]
    place = next((number for number, key in rows if key > name), None)
    if place is None:
        place = end
        while place > start + 1 and not lines[place - 1].strip():
            place -= 1
        if not lines[place - 1].endswith("\n"):
            lines[place - 1] += "\n"
    return "".join([*lines[:place], row, *lines[place:]])


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """Where the schemas and the package stand, which revisions are imported (none: what is new), and whether types are
    checked with mypy."""

    root: Path
    output: Path
    revisions: tuple[str, ...] = ()
    type_check: bool = True


@dataclass(slots=True)
class RevisionUpdate:
    """What came of one revision. `diffs` are the changes since the revision before it, and since what stands here;
    `converts` is what conversion loses or refuses, if the names of `renames`, which have no row, mean the same."""

    revision: str
    follows: str
    definitions: int = 0
    findings: Sequence[Finding] = ()
    diffs: list[DiffReport] = field(default_factory=list[DiffReport])
    undocumented: list[str] = field(default_factory=list[str])
    converts: list[str] = field(default_factory=list[str])
    renames: list[Rename] = field(default_factory=list[Rename])


@dataclass(slots=True)
class Update:
    """The result: the revisions, releases that differ from what was imported, and the files to write and to remove."""

    snapshot: Snapshot
    revisions: list[RevisionUpdate] = field(default_factory=list[RevisionUpdate])
    differing: list[str] = field(default_factory=list[str])
    schemas: dict[Path, str] = field(default_factory=dict[Path, str])
    package: dict[Path, str] = field(default_factory=dict[Path, str])
    removed: list[Path] = field(default_factory=list[Path])

    @property
    def findings(self) -> list[Finding]:
        """Return the findings of all revisions."""
        return [finding for item in self.revisions for finding in item.findings]


def prepare_update(
    snapshot: Snapshot, settings: UpdateSettings, folder: Path, progress: Callable[[str], None] = lambda text: None
) -> Update:
    """Return what an update to a snapshot comes to. `folder` is an empty one for the schemas that are tried.

    Raises CodegenError for a revision that the snapshot does not have, and for schemas here that cannot be read.
    """
    return _Preparation(snapshot, settings, folder, progress).update()


class _Preparation:
    def __init__(
        self, snapshot: Snapshot, settings: UpdateSettings, folder: Path, progress: Callable[[str], None]
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._progress = progress
        self._here = SchemaCatalog(settings.root)
        self._root = folder / "schema"
        shutil.copytree(settings.root, self._root)
        self._update = Update(snapshot, differing=[name for name in self._releases() if self._differs(name)])

    def update(self) -> Update:
        chosen = self._chosen()
        if DRAFT in chosen:  # It is imported again after the releases, and must not stand between two of them.
            shutil.rmtree(self._root / DRAFT, ignore_errors=True)
        for revision in chosen:
            self._progress(f"{revision}: imported and tried")
            if item := self._revision(revision):
                self._update.revisions.append(item)
        if not self._settings.revisions and not self._update.findings:
            self._remove_draft()
        written = [item.revision for item in self._update.revisions]
        if (written or self._update.removed) and not self._update.findings:
            self._progress("the package is generated")
            self._generate(written)
        return self._update

    def _releases(self) -> list[str]:
        """Return the releases of the snapshot that stand here."""
        return [name for name in self._snapshot.revisions if name != DRAFT and name in self._here.pins]

    def _chosen(self) -> list[str]:
        """Return the revisions to import, oldest first: those that are named, or new releases and the draft."""
        present = self._snapshot.revisions
        for revision in self._settings.revisions:
            if check_id(revision) not in present:
                raise CodegenError(f"{self._snapshot.commit[:12]} has no {revision}; it has {', '.join(present)}")
        if self._settings.revisions:
            return [name for name in present if name in self._settings.revisions]
        newest = self._newest()
        releases = [name for name in present if _RELEASE.fullmatch(name) and name > newest]
        drafts = [DRAFT] if DRAFT in present and (releases or self._differs(DRAFT)) else []
        return [*releases, *drafts]

    def _newest(self, but: str = "") -> str:
        """Return the newest release that is imported, other than `but`; an empty text if there is none."""
        names = [path.parent.name for path in self._root.glob("*/pins.toml")]
        return max((name for name in names if _RELEASE.fullmatch(name) and name != but), default="")

    def _differs(self, revision: str) -> bool:
        """Return True if the files of the snapshot are not those that were imported here."""
        pins = self._here.pins.get(revision)
        folder = self._snapshot.folder / revision
        return pins is None or any(
            digest((folder / name).read_bytes()) != pins.sha256.get(name) for name in ("schema.ts", "schema.json")
        )

    def _revision(self, revision: str) -> RevisionUpdate | None:
        """Import a revision into the temporary folder and try it. Return None for a draft without a change."""
        pinned = self._here.pins.get(revision)
        follows = pinned.follows if pinned is not None and revision != DRAFT else self._newest(but=revision)
        item = RevisionUpdate(revision, follows)
        try:
            folder = self._snapshot.folder / revision
            result = import_revision(folder, revision, follows, self._snapshot.commit, pinned.like if pinned else "")
            item.definitions = result.definitions
            place = self._root / revision
            place.mkdir(exist_ok=True)
            schema = self._here.without_covered_texts(revision, result.schema)
            (place / "schema.json").write_text(schema, encoding="utf-8", newline="\n")
            (place / "pins.toml").write_text(result.pins.text(), encoding="utf-8", newline="\n")
            shutil.rmtree(self._root / UNCLEAR / revision, ignore_errors=True)
            catalog = SchemaCatalog(self._root)
            item.findings = clarity_report(catalog, revision).findings
            if item.findings:
                return item
            self._compare(catalog, item)
            if revision == DRAFT and self._is_same(item):
                shutil.rmtree(place)
                return None
            item.findings = try_revision(catalog, revision, type_check=self._settings.type_check)
        except CodegenError as error:
            item.findings = [self._named(finding) for finding in error.findings]
        return item

    def _named(self, finding: Finding) -> Finding:
        """Return a finding with the names that files have in the repository, instead of those of a temporary folder."""
        folder = str(self._snapshot.folder)
        return replace(finding, text=finding.text.replace(folder, self._snapshot.folder.name))

    def _compare(self, catalog: SchemaCatalog, item: RevisionUpdate) -> None:
        revision = catalog.revision(item.revision)
        item.undocumented = undocumented(revision.types, catalog.docs)
        order = [catalog.revision(name) for name in catalog.pins]
        if item.follows:
            older = catalog.revision(item.follows)
            item.renames = suggested_renames(older, revision, catalog.conversions)
            names = [*known_renames(older, revision, catalog.conversions), *item.renames]
            changes = collapse(compare(older, revision), names)
            item.diffs.append(DiffReport(older.id, item.revision, changes, deprecations(order)))
            item.converts = self._losses(catalog, item)
        if item.revision in self._here.pins:
            before = self._here.revision(item.revision)
            item.diffs.append(DiffReport(f"{before.id}, as it stands here", revision.id, compare(before, revision), ()))

    def _losses(self, catalog: SchemaCatalog, item: RevisionUpdate) -> list[str]:
        """Return the rules by which conversions to the revision before and back lose or refuse what a revision has."""
        rows = with_renames(catalog.conversions, item.renames)
        names = list(catalog.pins)
        chain = names[names.index(item.follows) : names.index(item.revision) + 1]  # A draft may stand between the two.
        pairs = [pair for one, other in pairwise(map(catalog.revision, chain)) for pair in ((one, other), (other, one))]
        steps = [derive_step(source, target, rows) for source, target in pairs]
        return [
            f"{step.source} → {step.target}: {rule}"
            for step in steps
            for rule in step.rules
            if rule.partition(" ")[0] not in _OF_UNKNOWN
        ]

    def _is_same(self, item: RevisionUpdate) -> bool:
        """Return True if a draft differs from the release before it by its id alone."""
        return bool(item.follows) and all(change.rule == "revision-id" for change in item.diffs[0].changes)

    def _remove_draft(self) -> None:
        """Note what remains of a draft that has become a release."""
        present = DRAFT in self._snapshot.revisions and not (self._root / DRAFT).is_dir()
        if present and DRAFT in self._here.pins:
            shutil.rmtree(self._root / DRAFT, ignore_errors=True)
            module = self._here.revision(DRAFT).module
            self._update.removed = [self._settings.root / DRAFT, self._settings.output / module]

    def _generate(self, written: list[str]) -> None:
        before, docs = SchemaCatalog(self._root), self._root / "docs.toml"
        names = [name for id in before.pins for name in undocumented(before.types(id), before.docs)]
        text = with_stubs(docs.read_text(encoding="utf-8") if docs.exists() else "", dict.fromkeys(names))
        docs.write_text(text, encoding="utf-8", newline="\n")
        catalog = SchemaCatalog(self._root)
        modules = {name: catalog.revision(name).module for name in catalog.pins}
        is_new = not any((self._settings.output / module / "__init__.py").is_file() for module in modules.values())
        generated = list(modules) if is_new else written  # A package without the others has no conversions.
        try:
            package = generate(catalog, template_folders(None), self._settings.output, generated)
        except CodegenError as error:
            self._update.revisions.append(RevisionUpdate("the package", "", findings=error.findings))
            return
        files = [path for name in written for path in sorted((self._root / name).iterdir())]
        self._update.schemas = {
            self._settings.root / path.relative_to(self._root): path.read_text(encoding="utf-8")
            for path in (*files, docs)
        }
        self._update.package = package
        unclear = [self._settings.root / UNCLEAR / name for name in written]
        self._update.removed += [path for path in unclear if path.is_dir()]
        folders = [*(modules[name] for name in generated), "converters"]
        stale = [path for name in folders for path in sorted((self._settings.output / name).rglob("*.py"))]
        self._update.removed += [path for path in stale if path not in package]


# The report of an update as Markdown: what broke, who is affected, what has no sentence, and what is left to do.


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
