"""The catalog of a schema folder: its revisions, oldest first, each read when it is first needed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

from .conversion.derive import derive_step
from .conversion.rules import Conversions, read_conversions
from .conversion.steps import Step
from .errors import CodegenError, OverlayError, SchemaError, is_object
from .importer.references import Schema, schema_text
from .model.ir import Revision
from .model.lifecycle import (
    check_http,
    derive_error_codes,
    derive_http,
    derive_lifecycle,
    has_batches,
    has_null_ids,
    other_names,
)
from .model.methods import derive_methods, read_message_tags
from .model.overlay import Docs, Forms, Overlay, read_docs, read_forms, read_overlay
from .model.tags import check_tags, with_tags
from .model.types import NamedTypes, read_types, without_covered_texts
from .paths import Pins, digest, read_pins

# The folder of the revisions that were imported with findings: nothing is generated for them.
UNCLEAR: Final = "unclear"
_RESERVED: Final = frozenset({UNCLEAR, "extensions"})
_APP: Final = "App"  # The part of the runtime that has names of one revision.
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def check_id(revision: str) -> str:
    """Return the id of a revision. Raises CodegenError for one that cannot be the name of a folder and a module."""
    if _ID.fullmatch(revision) is None or revision in _RESERVED:
        raise CodegenError(
            f"{revision!r} cannot be the id of a revision; choose ASCII letters, digits, dots, hyphens and "
            f"underscores, beginning with a letter or digit, and not {' or '.join(sorted(_RESERVED))}"
        )
    return revision


@dataclass(frozen=True, slots=True)
class Candidate:
    """A revision that is not in the folder: its pins, and the text of its normalized schema."""

    pins: Pins
    schema: str


class SchemaCatalog:
    """The folder schema/: one folder for each revision, and overlay.toml, docs.toml and conversions.toml for all.

    The revisions in its folder `unclear` do not belong to the catalog. A candidate belongs to it, instead of the
    revision with the same id.
    """

    def __init__(self, root: Path, candidate: Candidate | None = None) -> None:
        self.root = root
        self._candidate = candidate
        self._revisions: dict[str, Revision] = {}

    @cached_property
    def unclear(self) -> dict[str, Path]:
        """Return the folder of each revision that is set aside for its findings."""
        return {path.parent.name: path.parent for path in sorted(self.root.glob(f"{UNCLEAR}/*/pins.toml"))}

    def with_unclear(self, revision: str) -> SchemaCatalog:
        """Return a catalog that has this revision as well, if it is set aside, or else this catalog."""
        if revision in self.pins or revision not in self.unclear:
            return self
        folder = self.unclear[revision]
        try:
            text = (folder / "schema.json").read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"{folder / 'schema.json'}: cannot be read: {error}; import it again") from error
        return SchemaCatalog(self.root, Candidate(read_pins(folder / "pins.toml"), text))

    @cached_property
    def pins(self) -> dict[str, Pins]:
        """Return the pins of each revision, each directly after the one that it follows.

        Of several that follow the same one, those that fewer revisions follow come first, and releases, which have a
        date as their id, last: a draft is inserted.
        """
        unordered = {path.parent.name: read_pins(path) for path in sorted(self.root.glob("*/pins.toml"))}
        if self._candidate is not None:
            unordered[self._candidate.pins.revision] = self._candidate.pins
        order = _order(unordered, "")
        if remaining := sorted(unordered.keys() - set(order)):
            raise SchemaError(
                f"{remaining[0]}: pins.toml has follows = {unordered[remaining[0]].follows!r}, a revision that is not "
                f"in {self.root}; import that one first"
            )
        return {name: unordered[name] for name in order}

    @cached_property
    def docs(self) -> Docs:
        """Return the sentences of docs.toml."""
        return read_docs(self.root / "docs.toml")

    @cached_property
    def forms(self) -> Forms:
        """Return the rows of official.toml."""
        return read_forms(self.root / "official.toml")

    @cached_property
    def overlay(self) -> Overlay:
        """Return the rows of overlay.toml."""
        like = {name: pins.like for name, pins in self.pins.items() if pins.like}
        renamed = {
            place: f"{place.rpartition('.')[0]}.{row.values['use']}" if kind == "at" else str(row.values["use"])
            for kind in ("method", "at")
            for place, row in self.conversions.renames(kind).items()
        }
        return replace(read_overlay(self.root / "overlay.toml", like), renames=renamed)

    @cached_property
    def conversions(self) -> Conversions:
        """Return the rows of conversions.toml."""
        return read_conversions(self.root / "conversions.toml")

    @cached_property
    def steps(self) -> dict[tuple[str, str], Step]:
        """Return the conversion step for each two neighbouring revisions, in both directions. Raises OverlayError
        for an unused row."""
        revisions = [self.revision(name) for name in self.pins]
        derived: dict[tuple[str, str], Step] = {}
        for older, newer in pairwise(revisions):
            derived[older.id, newer.id] = derive_step(older, newer, self.conversions)
            derived[newer.id, older.id] = derive_step(newer, older, self.conversions)
        for older, newer in self._parted:  # A row is made for these, whatever was inserted between them.
            derive_step(older, newer, self.conversions)
            derive_step(newer, older, self.conversions)
        self.conversions.check_all_used()
        return derived

    @property
    def _parted(self) -> list[tuple[Revision, Revision]]:
        """Return the revisions that are not neighbours because of an inserted one: the followed one, and the other."""
        order = list(self.pins)
        parted = [(pins.follows, id) for id, pins in self.pins.items() if pins.follows]
        parted = [(older, id) for older, id in parted if order.index(id) - order.index(older) > 1]
        return [(self.revision(older), self.revision(newer)) for older, newer in parted]

    def require_revision(self, revision: str) -> str:
        """Return the id if there is such a revision, else raise CodegenError with the ids that exist."""
        if revision not in self.pins and revision in self.unclear:
            raise CodegenError(
                f"{revision!r} was imported with findings, and nothing is generated for it; "
                f"`mcp-codegen clarity --revision {revision} --schema {self.root}` lists them: mend them and "
                "import it again"
            )
        if revision not in self.pins:
            names = ", ".join(self.pins) or f"none, because {self.root} has no revision"
            raise CodegenError(f"unknown revision {revision!r}; the known revisions are {names}")
        return revision

    def normalized(self, revision: str) -> tuple[Schema, str]:
        """Return the normalized schema of a revision and its sha256."""
        path = self.root / self.require_revision(revision) / "schema.json"
        candidate = self._candidate
        try:
            is_candidate = candidate is not None and candidate.pins.revision == revision
            data = candidate.schema.encode() if candidate is not None and is_candidate else path.read_bytes()
            schema = json.loads(data)
        except OSError as error:
            raise SchemaError(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{path}: is not JSON: {error}") from error
        if not is_object(schema):
            raise SchemaError(f"{path}: must be a JSON object, not {type(schema).__name__}")
        return schema, digest(data)

    def revision(self, revision: str) -> Revision:
        """Return one revision, derived from its schema and the overlay."""
        if revision not in self._revisions:
            schema, sha256 = self.normalized(revision)
            self._revisions[revision] = self.derive(revision, schema, sha256)
        return self._revisions[revision]

    def derive(self, revision: str, schema: Schema, sha256: str = "", *, like: str = "") -> Revision:
        """Return the revision that a normalized schema and the overlay describe. The schema need not be in the
        folder, and `revision` may be any id. The rows of `like`, if there is one, apply to it."""
        try:
            overlay = replace(self.overlay, like={**self.overlay.like, revision: like}) if like else self.overlay
            return self._derive(revision, schema, sha256, overlay)
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            # A schema is untrusted input: any error it causes here becomes one clear line.
            raise SchemaError(
                f"{revision}: the schema has a form that mcp-codegen cannot read: {error!r}; import it again "
                "with `mcp-codegen import`"
            ) from error

    def _derive(self, revision: str, schema: Schema, sha256: str, overlay: Overlay) -> Revision:
        overlay = with_tags(overlay, schema, revision)
        types = read_types(schema, revision, overlay, self.docs)
        tags = read_message_tags(schema, types, revision)
        methods = derive_methods(types, revision, overlay, tags)
        lifecycle = derive_lifecycle(methods, revision, overlay)
        constants = schema.get("x-constants", {})
        http = derive_http(methods, types, constants, lifecycle.style, revision, overlay)
        codes = derive_error_codes(constants, lifecycle.style, revision, overlay)
        check_tags(overlay, revision)
        batches, null_ids = has_batches(types), has_null_ids(types)
        names = other_names(types, overlay)
        return Revision(
            revision, constants, types, methods, lifecycle, http, codes, batches, null_ids, sha256, other_names=names
        )

    def types(self, revision: str) -> NamedTypes:
        """Return the types of one revision, even if its methods cannot be derived yet."""
        schema, _ = self.normalized(revision)
        return read_types(schema, revision, with_tags(self.overlay, schema, revision), self.docs)

    def without_covered_texts(self, revision: str, text: str) -> str:
        """Return the text of a normalized schema with the texts of the specification only where docs.toml has no
        sentence; with all of them if its types cannot be read."""
        schema: Schema = json.loads(text)
        with suppress(CodegenError):
            types = read_types(schema, revision, with_tags(self.overlay, schema, revision), self.docs)
            schema = without_covered_texts(schema, types)
        return schema_text(schema)

    @property
    def app_form(self) -> str:
        """Return the revision in which the app is written; an empty text if the overlay has no row for it. Raises
        OverlayError if it is none of the folder."""
        rows = self.overlay.table("form", "")
        if _APP not in rows:
            return ""
        form = str(rows.use(_APP))
        if form not in self.pins:
            raise OverlayError(
                f"{rows.rows[_APP]} names {form!r}, which is not a revision in {self.root}; name one that is: "
                f"{', '.join(self.pins)}"
            )
        return form

    def check_overlay(self) -> None:
        """Read every revision, and raise OverlayError for an unused row of the overlay."""
        _ = self.app_form
        check_http([self.revision(revision) for revision in self.pins], self.overlay)
        self.overlay.check_all_used(self.pins)


def _order(pins: Mapping[str, Pins], after: str) -> list[str]:
    """Return the revisions that follow one, directly or through others, in the order of `SchemaCatalog.pins`."""
    chains = [[name, *_order(pins, name)] for name, own in pins.items() if name and own.follows == after]
    chains.sort(key=lambda chain: (len(chain), bool(_DATE.fullmatch(chain[0])), chain[0]))
    return [name for chain in chains for name in chain]
