"""A seed goes in, a changed edition of one of the revisions comes out, and what the generator has to make of it.

Every kind of change says itself what may follow: that bindings are generated, or a report of some rule that names the
place that was changed. A change that nothing contradicts has to go through.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Schema = dict[str, Any]
REF = "#/$defs/"
ROLES = ("ClientRequest", "ServerRequest", "InputRequest", "ClientNotification", "ServerNotification")


@dataclass(frozen=True)
class Verdict:
    """`goes`: bindings are generated; otherwise a report with this rule, which names the place."""

    goes: bool
    rule: str = ""
    at: str = ""


GOES = Verdict(True)


def mutate(edition: Schema, kind: str, seed: int, overlay: Schema) -> tuple[Schema, Verdict]:
    """A changed copy of the edition; `overlay` is the overlay as it stands in its file."""
    changed: Schema = json.loads(json.dumps(edition))
    return changed, KINDS[kind](changed["$defs"], Random(f"{kind} {seed}"), overlay)


def _records(types: Schema) -> list[str]:
    return sorted(name for name, definition in types.items() if definition.get("properties"))


def _unions(types: Schema) -> list[str]:
    names = (name for name, definition in types.items() if name not in ROLES and len(definition.get("anyOf", ())) > 2)
    return sorted(name for name in names if all("$ref" in arm for arm in types[name]["anyOf"]))


def _messages(types: Schema) -> dict[str, str]:
    """The methods, by the name of the message."""
    members = {arm["$ref"].removeprefix(REF) for role in ROLES for arm in types.get(role, {}).get("anyOf", ())}
    return {name: types[name]["properties"]["method"]["const"] for name in sorted(members)}


def _named_in(overlay: Schema) -> str:
    return json.dumps(overlay)


def _roles(overlay: Schema, style: str) -> set[str]:
    return {method for row in overlay["lifecycle"] if row["style"] == style for method in row["roles"].values()}


def _style(types: Schema) -> str:
    return "handshake" if "InitializeRequest" in types else "stateless"


def _definition_added(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    holder = chance.choice(_records(types))
    types["Novelty"] = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    types[holder]["properties"]["novelty"] = {"$ref": REF + "Novelty"}
    return GOES


def _definition_removed(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    text = json.dumps(types)
    removed = chance.choice([name for name in _records(types) if f'"{REF}{name}"' in text])
    del types[removed]
    return Verdict(False, "reference", removed)


def _definition_renamed(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    special = ("Request", "Result", "Notification", "Capabilities", "Response", "JSONRPC", "Error")
    overlay_names = _named_in(overlay)
    free = [name for name in _records(types) if not any(word in name for word in special) and name not in overlay_names]
    old = chance.choice(free)
    text = json.dumps(types).replace(f'"{REF}{old}"', f'"{REF}{old}Renamed"')
    again = json.loads(text)
    for definition in again.values():
        definition.update(
            {"x-extends": [f"{old}Renamed" if base == old else base for base in definition.get("x-extends", ())]}
        )
    types.clear()
    types.update({f"{old}Renamed" if name == old else name: definition for name, definition in again.items()})
    return GOES


def _arm_added(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    properties = {"type": {"type": "string", "const": "novel"}, "value": {}}
    types["NovelArm"] = {"type": "object", "properties": properties, "required": ["type"]}
    types[chance.choice(_unions(types))]["anyOf"].append({"$ref": REF + "NovelArm"})
    return GOES


def _arm_removed(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    arms = types[chance.choice(_unions(types))]["anyOf"]
    arms.remove(chance.choice(arms))
    return GOES


def _required_added(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    definition = types[chance.choice(_records(types))]
    definition["properties"]["needed"] = {"type": "integer"}
    definition["required"] = [*definition.get("required", ()), "needed"]
    return GOES


def _required_dropped(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    messages = _messages(types)
    name = chance.choice([name for name in _records(types) if types[name].get("required")])
    wire = chance.choice(types[name]["required"])
    types[name]["required"].remove(wire)
    return Verdict(False, "message", name) if wire == "method" and name in messages else GOES


def _enums(schema: Any) -> list[list[str]]:
    if isinstance(schema, dict):
        own = [schema["enum"]] if "enum" in schema and isinstance(schema["enum"], list) else []
        return own + [enum for value in schema.values() for enum in _enums(value)]
    return [enum for item in schema for enum in _enums(item)] if isinstance(schema, list) else []


def _enum_added(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    chance.choice(_enums(types)).append("never heard of")
    return GOES


def _enum_removed(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    values = chance.choice([values for values in _enums(types) if len(values) > 1])
    removed = chance.choice(values)
    values.remove(removed)
    default_values = {row["use"]: row["at"].split(".")[-1] for row in overlay["default"]}
    return Verdict(False, "overlay", default_values[removed]) if removed in default_values else GOES


def _role_added(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    """A request that the server answers today is one of the client's as well, whose capabilities do not have it."""
    holder = "ServerRequest" if "ServerRequest" in types else "InputRequest"
    named = {row["method"] for row in overlay["capability"]}
    theirs = {arm["$ref"] for arm in types[holder].get("anyOf", ())}
    able = types["ClientCapabilities"]["properties"]
    arms = [arm["$ref"].removeprefix(REF) for arm in types["ClientRequest"]["anyOf"] if arm["$ref"] not in theirs]
    methods = {name: types[name]["properties"]["method"]["const"] for name in arms}
    free = [name for name, method in methods.items() if method not in named and method.split("/")[0] not in able]
    name = chance.choice(free)
    types[holder]["anyOf"].append({"$ref": REF + name})
    return Verdict(False, "capability", methods[name])


def _role_removed(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    """A message that is in one role alone leaves it, and nobody sends it."""
    rows = [(role, arm) for role in ROLES for arm in types.get(role, {}).get("anyOf", ())]
    once = [(role, arm) for role, arm in rows if [other for _, other in rows].count(arm) == 1]
    role, arm = chance.choice([(role, arm) for role, arm in once if len(types[role]["anyOf"]) > 1])
    types[role]["anyOf"].remove(arm)
    return Verdict(False, "direction", arm["$ref"].removeprefix(REF))


def _method(types: Schema, method: str, capability: str) -> None:
    properties = {"method": {"type": "string", "const": method}, "params": {"$ref": REF + "NoveltyRequestParams"}}
    more = types["JSONRPCRequest"]["properties"] if "x-extends" in types["JSONRPCRequest"] else {}
    envelope = {key: more[key] for key in ("jsonrpc", "id") if key in more and "InitializeRequest" not in types}
    types["NoveltyRequest"] = {
        "type": "object",
        "properties": properties | envelope,
        "required": ["method", "params", *envelope],
    }
    meta = types.get("RequestParams", {})
    base = {"x-extends": ["RequestParams"]} if meta else {}
    params = {**meta.get("properties", {}), "question": {"type": "string"}}
    needed = [*meta.get("required", ()), "question"]
    types["NoveltyRequestParams"] = base | {"type": "object", "properties": params, "required": needed}
    result = types["Result"]
    answer = {**result.get("properties", {}), "answer": {"type": "string"}}
    types["NoveltyResult"] = {"x-extends": ["Result"], "type": "object", "properties": answer}
    types["NoveltyResult"]["required"] = [*result.get("required", ()), "answer"]
    types["ClientRequest"]["anyOf"].append({"$ref": REF + "NoveltyRequest"})
    if capability:
        types["ServerCapabilities"]["properties"][capability] = {"type": "object", "properties": {}}


def _method_added(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    name = f"novelty{chance.randrange(1000)}"
    _method(types, f"{name}/ask", name)
    return GOES


def _method_added_without_capability(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    method = f"novelty{chance.randrange(1000)}/ask"
    _method(types, method, "")
    return Verdict(False, "capability", method)


def _method_removed(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    name, method = chance.choice(list(_messages(types).items()))
    for definition in types.values():
        if "anyOf" in definition:
            definition["anyOf"] = [arm for arm in definition["anyOf"] if arm.get("$ref") != REF + name]
    del types[name]
    return Verdict(False, "lifecycle", method) if method in _roles(overlay, _style(types | {name: {}})) else GOES


def _method_renamed(types: Schema, chance: Random, overlay: Schema) -> Verdict:
    name, method = chance.choice(list(_messages(types).items()))
    types[name]["properties"]["method"]["const"] = f"{method}Anew"
    if any(row["method"] == method for row in overlay["capability"]) and "resources" not in method:
        return Verdict(False, "capability", f"{method}Anew")
    return Verdict(False, "lifecycle", method) if method in _roles(overlay, _style(types)) else GOES


KINDS: dict[str, Callable[[Schema, Random, Schema], Verdict]] = {
    "definition-added": _definition_added,
    "definition-removed": _definition_removed,
    "definition-renamed": _definition_renamed,
    "arm-added": _arm_added,
    "arm-removed": _arm_removed,
    "required-added": _required_added,
    "required-dropped": _required_dropped,
    "enum-added": _enum_added,
    "enum-removed": _enum_removed,
    "role-added": _role_added,
    "role-removed": _role_removed,
    "method-added": _method_added,
    "method-added-without-capability": _method_added_without_capability,
    "method-removed": _method_removed,
    "method-renamed": _method_renamed,
}
