"""Print the JSON Schema of the types of `a2a-sdk` 0.3, which were made of the one of the protocol: a2a.json."""

import inspect
import json

from a2a import types
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

models = [value for value in vars(types).values() if inspect.isclass(value) and issubclass(value, BaseModel)]
_, schema = models_json_schema([(model, "validation") for model in models], by_alias=True)
for definition in schema["$defs"].values():  # Constants are required there, and have defaults in the SDK.
    constants = {name for name, value in definition.get("properties", {}).items() if "const" in value}
    if constants:
        definition["required"] = sorted({*definition.get("required", ()), *constants})
print(json.dumps(schema))
