"""Definitions that are put together of others go in, each comes out as one object with all its properties."""

from __future__ import annotations

from typing import Any

from ..errors import SchemaError
from ..importer.normalize import REF, Schema
from .manifest import Manifest


class Flattener:
    """The definitions of an extension, among those of the core."""

    def __init__(self, every: Schema, own: set[str], manifest: Manifest) -> None:
        self._every = every
        self._own = own
        self._manifest = manifest
        self._requests = {name for role, names in manifest.roles.items() if role.endswith("Request") for name in names}

    def definitions(self) -> Schema:
        """The extension's own definitions, the params of its messages among them."""
        found: Schema = {}
        for name in self._every:
            if name not in self._own:
                continue
            body = self._object(self._every[name]) if "allOf" in self._every[name] else dict(self._every[name])
            params = body.get("properties", {}).get("params", {})
            if name in self._requests and "properties" in params:
                found[f"{name}Params"] = self._opened(name, self._params(params))
                body["properties"] = {**body["properties"], "params": {"$ref": f"{REF}{name}Params"}}
            found[name] = body
        return found

    def _params(self, params: Schema) -> Schema:
        """Params of a request, with the metadata that every request of the core carries."""
        common = self._every.get("RequestParams", {})
        properties = {**common.get("properties", {}), **params["properties"]}
        required = [*common.get("required", ()), *params.get("required", ())]
        return {"type": "object", "x-extends": ["RequestParams"], "properties": properties, "required": required}

    def _opened(self, name: str, params: Schema) -> Schema:
        """Params of which some objects may have any values."""
        for each in self._manifest.open.get(name, ()):
            if each not in params["properties"]:
                raise SchemaError(f"{self._manifest.name}: {name} has no {each!r} to be open", rule="manifest")
            params["properties"][each] = {"type": "object", "additionalProperties": {}}
        return params

    def _object(self, body: Schema) -> Schema:
        """The parts of an intersection as one object; a part that is a union gives what each of its arms has as
        required, and everything else as optional."""
        properties: Schema = {}
        required: list[str] = []
        extends: list[str] = []
        for part in body["allOf"]:
            whole, named = self._resolved(part)
            if named and "anyOf" not in whole:
                extends.append(named)
            members = self._union(whole) if "anyOf" in whole else whole
            properties |= members.get("properties", {})
            required += [name for name in members.get("required", ()) if name not in required]
        marks = {key: value for key, value in body.items() if key.startswith("x-")}
        return marks | {"type": "object", "x-extends": extends, "properties": properties, "required": required}

    def _resolved(self, part: Schema) -> tuple[Schema, str]:
        """What a part refers to, put together itself where it has to be, and its name."""
        name = ""
        while "$ref" in part:
            name = str(part["$ref"]).removeprefix(REF)
            if name not in self._every:
                raise SchemaError(f"{self._manifest.name}: it refers to {name}, which is not defined")
            part = self._every[name]
        return (self._object(part) if "allOf" in part else part), name

    def _union(self, union: Schema) -> Schema:
        arms = [self._resolved(arm)[0] for arm in union["anyOf"]]
        forms: dict[str, list[Any]] = {}
        for arm in arms:
            for name, form in arm["properties"].items():
                forms.setdefault(name, [])
                if form not in forms[name]:
                    forms[name].append(form)
        needed = [name for name in arms[0].get("required", ()) if all(name in arm.get("required", ()) for arm in arms)]
        return {"properties": {name: _one_of(found) for name, found in forms.items()}, "required": needed}


def _one_of(forms: list[Schema]) -> Schema:
    """One schema for a property that has one of these."""
    if all("const" in form for form in forms):
        return {"type": forms[0]["type"], "enum": [form["const"] for form in forms]}
    return forms[0] if len(forms) == 1 else {"anyOf": forms}
