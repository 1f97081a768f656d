"""A folder of schemas goes in, the revisions come out, oldest first, each read only when it is asked for."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from .conversion.derive import derive_step
from .conversion.rules import Conversions, read_conversions
from .conversion.steps import Step
from .errors import CodegenError, SchemaError
from .importer.normalize import Schema
from .importer.pins import Pins, digest, read_pins
from .json_types import is_object
from .model.docs import Docs, read_docs
from .model.error_codes import derive_error_codes
from .model.ir import Revision
from .model.lifecycle import (
    check_http,
    derive_http,
    derive_lifecycle,
    has_batches,
    has_null_ids,
)
from .model.methods import derive_methods
from .model.overlay import Overlay, read_overlay
from .model.types import Named, read_types


class SchemaCatalog:
    """The folder schema/: a folder a revision, and overlay.toml and docs.toml for all of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[str, Revision] = {}

    @cached_property
    def pins(self) -> dict[str, Pins]:
        """The pins of each revision, every revision after the one it follows."""
        found = {path.parent.name: read_pins(path) for path in sorted(self.root.glob("*/pins.toml"))}
        ordered: dict[str, Pins] = {}
        while rest := {name: pins for name, pins in found.items() if name not in ordered}:
            ready = {name: pins for name, pins in rest.items() if not pins.follows or pins.follows in ordered}
            if not ready:
                name, pins = min(rest.items())
                raise SchemaError(f"{name}: pins.toml says it follows {pins.follows!r}, which is not in {self.root}")
            ordered |= ready
        return ordered

    @cached_property
    def docs(self) -> Docs:
        return read_docs(self.root / "docs.toml")

    @cached_property
    def overlay(self) -> Overlay:
        return read_overlay(
            self.root / "overlay.toml", {name: pins.like for name, pins in self.pins.items() if pins.like}
        )

    @cached_property
    def conversions(self) -> Conversions:
        return read_conversions(self.root / "conversions.toml")

    @cached_property
    def steps(self) -> dict[tuple[str, str], Step]:
        """The way from each revision to its neighbours, in both directions. Raises OverlayError for a row without use."""
        revisions = [self.revision(name) for name in self.pins]
        found: dict[tuple[str, str], Step] = {}
        for one, other in pairwise(revisions):
            found[one.id, other.id] = derive_step(one, other, self.conversions)
            found[other.id, one.id] = derive_step(other, one, self.conversions)
        self.conversions.check_all_used()
        return found

    def known(self, revision: str) -> str:
        """The revision itself, if there is one of that name. Raises CodegenError that names those there are."""
        if revision not in self.pins:
            names = ", ".join(self.pins) or f"none, {self.root} holds no revision"
            raise CodegenError(f"unknown revision {revision!r}; the known ones are {names}")
        return revision

    def normalized(self, revision: str) -> tuple[Schema, str]:
        """Our edition of one schema, and its sha256."""
        path = self.root / self.known(revision) / "schema.json"
        try:
            data = path.read_bytes()
            schema = json.loads(data)
        except OSError as fault:
            raise SchemaError(f"{path}: cannot be read: {fault.strerror}") from fault
        except (ValueError, RecursionError) as fault:
            raise SchemaError(f"{path}: is not JSON: {fault}") from fault
        if not is_object(schema):
            raise SchemaError(f"{path}: is not a schema but {type(schema).__name__}")
        return schema, digest(data)

    def revision(self, revision: str) -> Revision:
        """One revision, whole."""
        if revision not in self._read:
            edition, sha256 = self.normalized(revision)
            self._read[revision] = self.derive(revision, edition, sha256)
        return self._read[revision]

    def derive(self, revision: str, edition: Schema, sha256: str = "") -> Revision:
        """What an edition that need not stand in the folder says, under any id, with the overlay of the folder."""
        try:
            return self._derive(revision, edition, sha256)
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as fault:
            # A schema is input that anybody can write: whatever it breaks in here, it gets one clear line.
            raise SchemaError(f"{revision}: the schema is not of the form read here: {fault!r}") from fault

    def _derive(self, revision: str, edition: Schema, sha256: str) -> Revision:
        types = self._types(revision, edition)
        methods = derive_methods(types, revision, self.overlay)
        lifecycle = derive_lifecycle(methods, revision, self.overlay)
        constants = edition.get("x-constants", {})
        http = derive_http(methods, constants, lifecycle.style, revision, self.overlay)
        codes = derive_error_codes(constants, lifecycle.style, revision, self.overlay)
        batches, null_ids = has_batches(types), has_null_ids(types)
        return Revision(revision, constants, types, methods, lifecycle, http, codes, batches, null_ids, sha256)

    def types(self, revision: str) -> Named:
        """The types of one revision, whether or not its methods can be derived already."""
        return self._types(revision, self.normalized(revision)[0])

    def _types(self, revision: str, edition: Schema) -> Named:
        return read_types(edition, revision, self.overlay, self.docs)

    def check_overlay(self) -> None:
        """Read every revision, and raise OverlayError for a row that nothing uses."""
        check_http([self.revision(revision) for revision in self.pins], self.overlay)
        self.overlay.check_all_used(self.pins)
