"""Print what modules of types have, and what the first makes of examples: `official_types.py MODULE,MODULE FOLDER`."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

TEXTS = ("title", "description")
UNIONS = ("Request", "Notification", "Result")
MESSAGES = ("JSONRPCMessage", *(f"{side}{kind}" for side in ("Client", "Server") for kind in UNIONS))


def bare(schema: Any) -> Any:
    """Return a JSON Schema without texts, and with its lists in one order."""
    if isinstance(schema, dict):
        items = cast("dict[str, Any]", schema).items()
        return {key: bare(value) for key, value in items if key not in TEXTS or not isinstance(value, str)}
    if isinstance(schema, list):
        return sorted(map(bare, cast("list[Any]", schema)), key=str)
    return schema


def facts(value: Any) -> Any:
    """Return what a program sees of a name: the fields of a class, the arms of a union, a constant."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        fields = [
            [name, field.alias or name, field.is_required(), None if field.is_required() else repr(field.default)]
            for name, field in value.model_fields.items()
        ]
        extra = value.model_config.get("extra") or "ignore"
        return {"fields": fields, "extra": extra, "bases": bases(value), "schema": schema_of(value)}
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        table = cast("Mapping[Any, Any]", value)
        return {str(key): [arm.__name__ for arm in get_args(row) or (row,)] for key, row in table.items()}
    if isinstance(value, (frozenset, tuple)):
        return sorted(cast("frozenset[str]", value))
    if isinstance(value, FunctionType):
        return [*inspect.signature(value).parameters]
    if isinstance(value, TypeAdapter):
        return bare(value.json_schema())
    return schema_of(value)


def bases(value: type[BaseModel]) -> list[str]:
    """Return the names of the bases of a class that are types of the protocol."""
    names = {
        base.__name__.partition("[")[0] for base in value.__mro__[1:] if not base.__module__.startswith("pydantic")
    }
    return sorted(names - {"object", "Generic", "MCPModel", "WireModel"})


def schema_of(value: Any) -> Any:
    """Return the JSON Schema of a type; None for a generic class and for what is not a type."""
    if getattr(value, "__parameters__", ()) or not (isinstance(value, type) or get_args(value)):
        return None
    try:
        return bare(TypeAdapter(value).json_schema())
    except PydanticInvalidForJsonSchema:
        return "callable"


def is_public(name: str, value: Any) -> bool:
    """Return True for a name that stands for something of the protocol, not for an import."""
    home = str(getattr(value, "__module__", ""))
    if home == "typing_extensions" and not isinstance(value, (type, FunctionType)):
        return name == getattr(value, "__name__", "")  # A recursive alias.
    if name.startswith("_") or "[" in name or isinstance(value, ModuleType):
        return False
    if isinstance(value, (type, FunctionType)) and not get_args(value):
        return home == "builtins" or "mcp" in home
    return bool(get_args(value)) or home != "typing"


def public(module: ModuleType) -> dict[str, Any]:
    """Return the names of a module: those that it lists, or those that stand for something of the protocol."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return {name: getattr(module, name) for name in listed}
    return {name: value for name, value in vars(module).items() if is_public(name, value)}


def outcome(hint: Any, message: Any) -> Any:
    """Return the class that an example becomes and its dumps, or that it is refused."""
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    try:
        value = adapter.validate_python(message)
    except ValidationError:
        return "refused"
    dump = partial(adapter.dump_python, value, mode="json")
    kind = type(getattr(value, "root", value)).__name__
    return [kind, dump(by_alias=True, exclude_none=True), dump(by_alias=True), dump()]


def main() -> None:
    """Print the facts as JSON."""
    first, *others = [importlib.import_module(name) for name in sys.argv[1].split(",")]
    names = public(first)
    outcomes: dict[str, Any] = {}
    for path in sorted(Path(sys.argv[2]).glob("*/*.json")):
        message = json.loads(path.read_text(encoding="utf-8"))
        for name in (path.parent.name, *MESSAGES):
            if name in names:
                outcomes[f"{path.parent.name}/{path.name} as {name}"] = outcome(names[name], message)
    for module in others:
        place = module.__name__.rpartition(".")[2]
        names |= {f"{place}.{name}": value for name, value in public(module).items()}
    print(json.dumps({"names": {name: facts(value) for name, value in names.items()}, "examples": outcomes}))


if __name__ == "__main__":
    main()
