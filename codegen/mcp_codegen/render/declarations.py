"""The declarations of types, written by datamodel-code-generator: how each annotation is written, and its forward
references.

A declaration depends on its definition and on those that it refers to. Revisions and extensions have most of both in
common, so each declaration is written once in a process.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

from datamodel_code_generator import Error, InputFileType, LiteralType, generate
from datamodel_code_generator.enums import AllOfClassHierarchy, DataModelType, TargetPydanticVersion
from datamodel_code_generator.format import PythonVersion

from ..cache import cached, digest, tree_digest
from ..errors import CodegenError
from ..json_types import is_list, is_object
from ..model.ir import Alias, Object, Revision
from ..paths import Templates
from .sections import split
from .types import Masker, Schema, class_options, definition_schema, is_second_name

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
    references: frozenset[str]


def declarations(revision: Revision, templates: Templates, unlinked: Collection[str] = ()) -> dict[str, str]:
    """Return the declaration of each type by its name, but for second names.

    The docstrings of all types but `unlinked` end with the address of the type in the specification.
    """
    folder = next(folder / "types" for folder in templates if (folder / "types").is_dir())
    masked = {
        definition.name: _masked(definition, revision, Masker(revision, unlinked))
        for definition in revision.types.values()
        if not is_second_name(definition)
    }
    inputs = {name: json.dumps([item.schema, item.options]) for name, item in masked.items()}
    common = [_VERSION, tree_digest(folder)]
    digests = {
        name: digest([*common, name, inputs[name], *(inputs[other] for other in sorted(item.references))])
        for name, item in masked.items()
    }
    absent = [name for name in masked if digests[name] not in _texts]
    if absent:
        if len(_texts) > _MAX_TEXTS:
            _texts.clear()
            absent = list(masked)
        written = split(_written(revision, {name: masked[name] for name in absent}, masked, folder))
        _texts.update((digests[name], written[name]) for name in absent)
    return {name: item.tokens.unmask(_texts[digests[name]]) for name, item in masked.items()}


def _masked(definition: Object | Alias, revision: Revision, tokens: Masker) -> _Masked:
    schema = definition_schema(definition, revision, tokens)
    options = class_options(definition, revision, tokens) if isinstance(definition, Object) else {}
    return _Masked(tokens, schema, options, frozenset(_references(schema)))


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


def _written(revision: Revision, absent: Mapping[str, _Masked], masked: Mapping[str, _Masked], folder: Path) -> str:
    """Return a module with the types that are absent, and those that they refer to."""
    needed = absent.keys() | {other for item in absent.values() for other in item.references}
    # What only those refer to needs a name, and nothing else.
    named = {other for name in needed for other in masked[name].references} - needed
    schema = {
        "$defs": {
            name: item.schema if name in needed else {"type": "object"}
            for name, item in masked.items()
            if name in needed or name in named
        }
    }
    options = {name: item.options for name, item in masked.items() if name in needed and item.options}
    attributes = dict(sorted((token, name) for key in needed for token, name in masked[key].tokens.attributes.items()))
    parts: list[str | bytes] = [
        _VERSION,
        Path(__file__).read_bytes(),
        tree_digest(folder),
        json.dumps([schema, options, attributes]),
    ]
    try:
        return cached("types", parts, partial(_module_text, revision.id, schema, options, attributes, folder))
    except Error as error:
        reason = " ".join(str(error).split())[:300]
        raise CodegenError(
            f"{revision.id}: datamodel-code-generator cannot read a definition: {reason}; correct it"
        ) from error


def _module_text(
    revision: str, schema: Schema, options: Schema, attributes: Mapping[str, str | list[str]], folder: Path
) -> str:
    """Return the module that datamodel-code-generator writes for a schema, with tokens in the place of its texts."""
    source = generate(
        schema,
        input_file_type=InputFileType.JsonSchema,
        output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=PythonVersion.PY_311,
        base_class="mcp_runtime.protocol.wire.wire_models.WireModel",
        additional_imports=[
            "mcp_runtime.protocol.wire.wire_models.Opt",
            "mcp_runtime.protocol.wire.wire_models.const",
            "mcp_runtime.protocol.wire.wire_models.MISSING",
        ],
        custom_template_dir=folder,
        extra_template_data=cast("Any", options),
        aliases=attributes,
        allof_class_hierarchy=AllOfClassHierarchy.Always,
        custom_class_name_generator=lambda name: name,
        disable_future_imports=True,
        disable_timestamp=True,
        enum_field_as_literal=LiteralType.All,
        formatters=[],
        skip_root_model=True,
        strict_refs=True,
        target_pydantic_version=TargetPydanticVersion.V2_12,
        use_annotated=True,
        use_double_quotes=True,
        use_field_description=True,
        use_schema_description=True,
        use_type_alias=True,
    )
    if not isinstance(source, str):
        raise CodegenError(f"{revision}: datamodel-code-generator gave no single module")
    return source
