"""The declarations of types: what datamodel-code-generator is asked to write, and what it has written.

A declaration depends on its definition, on aliases that it refers to, and on the types among which a tag chooses. It
depends on nothing else of other types than their names. Revisions and extensions have most of this in common, so each
declaration is written once in a process.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jinja2

from ..cache import cached, digest, tree_digest
from ..errors import CodegenError, is_list, is_object
from ..model.ir import Alias, Object, Revision
from ..paths import Templates
from .source import template_error, template_lines
from .type_modules import split
from .types import Masker, Schema, class_options, definition_schema, is_matched_alias, is_second_name

_VERSION: Final = version("datamodel-code-generator")
_REFERENCE: Final = "#/$defs/"
_MAX_TEXTS: Final = 20_000
_texts: Final[dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class _Masked:
    """A type as datamodel-code-generator gets it."""

    tokens: Masker
    schema: Schema
    options: Schema
    input: str
    references: frozenset[str]
    tagged: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Task:
    """What datamodel-code-generator has to write: the declarations that no other task has, by their digests."""

    digests: dict[str, str]
    task: dict[str, Any]

    def parts(self) -> list[str | bytes]:
        """Return all that the module depends on."""
        folder = Path(self.task["folder"])
        task = {key: value for key, value in self.task.items() if key not in ("folder", "revision")}
        return [_VERSION, Path(__file__).read_bytes(), tree_digest(folder), json.dumps(task)]

    def store(self, module: str) -> None:
        """Store the declarations of the module."""
        written = split(module)
        _texts.update((digested, written[name]) for name, digested in self.digests.items())


class _Masks:
    """Types of a revision as datamodel-code-generator gets them: those that are declared, and those they refer to."""

    def __init__(self, revision: Revision, templates: Templates, own: Collection[str] | None) -> None:
        self._revision = revision
        self._own = own
        self._folder = next(folder / "types" for folder in templates if (folder / "types").is_dir())
        self._types: dict[str, _Masked] = {}
        chosen = (definition for definition in revision.types.values() if own is None or definition.name in own)
        declared = [
            definition.name
            for definition in chosen
            if not is_second_name(definition) and not is_matched_alias(definition)
        ]
        common = [_VERSION, tree_digest(self._folder)]
        self.digests = {
            name: digest([*common, name, self[name].input, *(self[other].input for other in sorted(self._read(name)))])
            for name in declared
        }

    def __getitem__(self, name: str) -> _Masked:
        if name not in self._types:
            self._types[name] = _masked(
                self._revision.types[name], self._revision, Masker(self._revision, self._own or ())
            )
        return self._types[name]

    def _read(self, name: str) -> set[str]:
        """Return the types that the declaration of a type depends on, but for their names."""
        types = self._revision.types
        return {other for other in self[name].references if isinstance(types[other], Alias)} | self[name].tagged

    def task(self, present: Collection[str]) -> _Task | None:
        """Return what has to be written, None if all of it is present."""
        digests = {name: digested for name, digested in self.digests.items() if digested not in present}
        if not digests:
            return None
        needed = digests.keys() | {other for name in digests for other in self._read(name)}
        named = {other for name in needed for other in self[name].references} - needed
        order = [name for name in self._revision.types if name in needed or name in named]
        schema = {"$defs": {name: self[name].schema if name in needed else {"type": "object"} for name in order}}
        options = {name: self[name].options for name in order if name in needed and self[name].options}
        attributes = dict(
            sorted((token, name) for key in needed for token, name in self[key].tokens.attributes.items())
        )
        task = {"revision": self._revision.id, "folder": str(self._folder.absolute())}
        return _Task(digests, task | {"schema": schema, "options": options, "attributes": attributes})


def declarations(revision: Revision, templates: Templates, own: Collection[str] | None = None) -> dict[str, str]:
    """Return the declaration of each type by its name, but for second names; only of `own` types, if they are named.

    The docstrings of all types but `own` end with the address of the type in the specification.
    """
    if len(_texts) > _MAX_TEXTS:
        _texts.clear()
    masks = _Masks(revision, templates, own)
    if (task := masks.task(_texts)) is not None:
        task.store(cached("types", task.parts(), partial(_written, task.task)))
    return {name: masks[name].tokens.unmask(_texts[digested]) for name, digested in masks.digests.items()}


def _written(task: dict[str, Any]) -> str:
    """Return the module of a task: the types of a schema, with tokens in the place of its texts.

    Raises CodegenError for a definition that cannot be read, and for a template that is broken.
    """
    try:
        source = _module_text(task)
    except Exception as error:
        if isinstance(error, CodegenError) or not (isinstance(error, jinja2.TemplateError) or template_lines(error)):
            raise
        raise template_error("types", error) from error
    if not isinstance(source, str):
        raise CodegenError(f"{task['revision']}: datamodel-code-generator gave no single module")
    return source


def _module_text(task: dict[str, Any]) -> object:
    import datamodel_code_generator.enums  # Takes a third of a second.

    writer = datamodel_code_generator
    try:
        return writer.generate(
            task["schema"],
            input_file_type=writer.InputFileType.JsonSchema,
            output_model_type=writer.enums.DataModelType.PydanticV2BaseModel,
            target_python_version=writer.PythonVersion.PY_311,
            base_class="mcp_runtime.protocol.wire_models.WireModel",
            additional_imports=[f"mcp_runtime.protocol.wire_models.{name}" for name in ("Opt", "const", "OptAny")],
            custom_template_dir=Path(task["folder"]),
            extra_template_data=task["options"],
            aliases=task["attributes"],
            allof_class_hierarchy=writer.AllOfClassHierarchy.Always,
            custom_class_name_generator=lambda name: name,
            disable_future_imports=True,
            disable_timestamp=True,
            enum_field_as_literal=writer.LiteralType.All,
            formatters=[],
            skip_root_model=True,
            strict_refs=True,
            target_pydantic_version=writer.TargetPydanticVersion.V2_12,
            use_annotated=True,
            use_double_quotes=True,
            use_field_description=True,
            use_schema_description=True,
            use_type_alias=True,
        )
    except writer.Error as error:
        reason = " ".join(str(error).split())[:300]
        raise CodegenError(
            f"{task['revision']}: datamodel-code-generator cannot read a definition: {reason}; correct it"
        ) from error


def _masked(definition: Object | Alias, revision: Revision, tokens: Masker) -> _Masked:
    schema = definition_schema(definition, revision, tokens)
    options = class_options(definition, revision, tokens) if isinstance(definition, Object) else {}
    references, tagged = frozenset(_references(schema)), frozenset(_tagged(schema))
    return _Masked(tokens, schema, options, json.dumps([schema, options]), references, tagged)


def _tagged(schema: object) -> Iterator[str]:
    """Yield the names of the types that the tags of a definition tell apart."""
    if is_object(schema):
        if "discriminator" in schema:
            yield from _references(schema)
        for value in schema.values():
            yield from _tagged(value)
    elif is_list(schema):
        for item in schema:
            yield from _tagged(item)


def _references(schema: object) -> Iterator[str]:
    """Yield the names of the types that a definition refers to."""
    if is_object(schema):
        for key, value in schema.items():
            if key == "$ref":
                yield value.removeprefix(_REFERENCE)
            else:
                yield from _references(value)
    elif is_list(schema):
        for item in schema:
            yield from _references(item)
