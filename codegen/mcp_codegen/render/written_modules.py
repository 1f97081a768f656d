"""Modules that datamodel-code-generator writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datamodel_code_generator import Error, InputFileType, LiteralType, generate
from datamodel_code_generator.enums import AllOfClassHierarchy, DataModelType, TargetPydanticVersion
from datamodel_code_generator.format import PythonVersion

from ..errors import CodegenError


def written_module(task: dict[str, Any]) -> str:
    """Return the module with the types of a schema, with tokens in the place of its texts.

    A task has the id of the revision, the schema, the options of the classes, the names of the attributes, and the
    folder of the templates. It is JSON.
    """
    try:
        source = _module_text(task)
    except Error as error:
        reason = " ".join(str(error).split())[:300]
        raise CodegenError(
            f"{task['revision']}: datamodel-code-generator cannot read a definition: {reason}; correct it"
        ) from error
    if not isinstance(source, str):
        raise CodegenError(f"{task['revision']}: datamodel-code-generator gave no single module")
    return source


def _module_text(task: dict[str, Any]) -> object:
    return generate(
        task["schema"],
        input_file_type=InputFileType.JsonSchema,
        output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=PythonVersion.PY_311,
        base_class="mcp_runtime.protocol.wire_models.WireModel",
        additional_imports=[
            "mcp_runtime.protocol.wire_models.Opt",
            "mcp_runtime.protocol.wire_models.const",
            "mcp_runtime.protocol.wire_models.OptAny",
        ],
        custom_template_dir=Path(task["folder"]),
        extra_template_data=task["options"],
        aliases=task["attributes"],
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
