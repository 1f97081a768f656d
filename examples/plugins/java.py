"""A plugin of mcp-codegen: Java types, a strict validator and a table of the methods, of the IR on standard input.

mcp-codegen plugin python examples/plugins/java.py --revision 2026-07-28 --output mcp/v2026_07_28
"""

from __future__ import annotations

import json
from pathlib import Path

from reading import Form, final, messages, one_line, revision_of, shape, title, write

SCHEMA = Path(__file__).parent / "java" / "Schema.java"
KINDS = {
    "string": "String",
    "boolean": "Boolean",
    "integer": "java.math.BigDecimal",
    "number": "java.math.BigDecimal",
}
RESERVED = frozenset(
    "abstract assert boolean break byte case catch char class const continue default do double else enum extends final "
    "finally float for goto if implements import instanceof int interface long native new package private protected "
    "public return short static strictfp super switch synchronized this throw throws transient try void volatile while "
    "true false null json wait notify notifyAll getClass hashCode toString clone finalize".split()
)
LONGEST = 8_000  # Characters of a constant: Java allows 65,535 bytes.


def written(form: Form, types: dict[str, Form]) -> str:
    """Return the Java type of a form."""
    form = final(form, types)
    match form["is"]:
        case "ref":
            return str(form["name"])
        case "plain":
            return KINDS.get(form["kind"], "Object")
        case "values" if all(isinstance(value, str) for value in form["values"]):
            return "String"
        case "array":
            return f"java.util.List<{written(form['items'], types)}>"
        case "map":
            return f"java.util.Map<String, {written(form['values'], types)}>"
        case _:
            return "Object"  # A union: `Schema.check` tells its arm.


def read(form: Form, types: dict[str, Form], value: str, depth: int = 0) -> str:
    """Return the expression that makes a value of the Java type of what JSON has."""
    form = final(form, types)
    name = f"v{depth}"
    match form["is"]:
        case "ref":
            return f"{form['name']}.of({value})"
        case "array":
            return f"Schema.list({value}, {name} -> {read(form['items'], types, name, depth + 1)})"
        case "map":
            return f"Schema.map({value}, {name} -> {read(form['values'], types, name, depth + 1)})"
        case _:
            kind = written(form, types)
            return value if kind == "Object" else f"({kind}) {value}"


def comment(text: str, indent: str = "") -> str:
    plain = one_line(text).replace("*/", "*&#47;").replace("\\", "&#92;").replace("<", "&lt;").replace("@", "&#64;")
    return f"{indent}/** {plain} */\n" if plain else ""


def accessor(field: Form, types: dict[str, Form]) -> str:
    first, *rest = [part for part in field["name"].split("_") if part] or ["empty"]
    name = first + "".join(part.capitalize() for part in rest)
    name = f"{name}_" if name in RESERVED else name
    value = read(field["type"], types, f"json.get({json.dumps(field['wire'])})")
    kind = written(field["type"], types)
    return f"{comment(field['doc'], '    ')}    public {kind} {name}() {{\n        return {value};\n    }}\n"


def declared(form: Form, types: dict[str, Form], head: str) -> str:
    name = form["name"]
    fields = "\n".join(accessor(field, types) for field in form["fields"])
    return f"""{head}
{comment(form["doc"])}public record {name}(java.util.Map<String, Object> json) {{
    @SuppressWarnings("unchecked")
    static {name} of(Object value) {{
        return value == null ? null : new {name}((java.util.Map<String, Object>) value);
    }}

{fields}}}
"""


def main() -> None:
    revision = revision_of(__file__)
    types: dict[str, Form] = revision["types"]
    package = f"package mcp.v{revision['id'].replace('-', '_')};"
    head = f"{title(revision)}{package}\n"
    text = json.dumps({name: shape(form) for name, form in types.items()}, ensure_ascii=True)
    parts = [json.dumps(text[start : start + LONGEST]) for start in range(0, len(text), LONGEST)]
    rows = [f"new Schema.Method({', '.join(map(json.dumps, row))})" for row in messages(revision)]
    records = [name for name, form in types.items() if form["is"] == "object"]
    files = {f"{name}.java": declared(types[name], types, head) for name in records}
    makers = "".join(f'            java.util.Map.entry("{name}", {name}::of),\n' for name in records).rstrip(",\n")
    files["Tables.java"] = f"""{head}
/** What the validator reads, and a row for each message. */
public final class Tables {{
    public static final String REVISION = {json.dumps(revision["id"])};

    public static final java.util.List<Schema.Method> METHODS = java.util.List.of(
            {f",{chr(10)}            ".join(rows)});

    static final java.util.Map<String, java.util.function.Function<Object, Object>> MAKERS = java.util.Map.ofEntries(
{makers});

    static final String SHAPES = String.join("",
            {f",{chr(10)}            ".join(parts)});
}}
"""
    files["Schema.java"] = head + SCHEMA.read_text(encoding="utf-8").removeprefix("package mcp;\n")
    write(files)


if __name__ == "__main__":
    main()
