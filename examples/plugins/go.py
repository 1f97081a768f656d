"""A plugin of mcp-codegen: Go types, a strict validator and a table of the methods, of the IR on standard input.

mcp-codegen plugin python examples/plugins/go.py --revision 2026-07-28 --output mcp
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from reading import Form, final, messages, one_line, revision_of, shape, title, write

FILES = Path(__file__).parent / "go"
RAW = "json.RawMessage"
KINDS = {"string": "string", "boolean": "bool", "integer": "json.Number", "number": "json.Number"}
EXTRA = '\tExtra map[string]json.RawMessage `json:"-"` // Properties that the schema does not have.'


def written(form: Form) -> str:
    """Return the Go type of a form."""
    match form["is"]:
        case "ref":
            return str(form["name"])
        case "plain":
            return KINDS.get(form["kind"], RAW)
        case "values":
            return "string" if all(isinstance(value, str) for value in form["values"]) else RAW
        case "array":
            return f"[]{written(form['items'])}"
        case "map":
            return f"map[string]{written(form['values'])}"
        case _:
            return RAW  # A union: `Check` tells its arm, and `Parse` reads it.


def declared(form: Form, types: dict[str, Form]) -> str:
    name = form["name"]
    comment = f"// {name}: {one_line(form['doc'])}\n" if form["doc"] else ""
    if form["is"] == "alias":
        return f"{comment}type {name} = {written(form['type'])}\n"
    lines = [field_line(field, types) for field in form["fields"]]
    text = "\n".join([EXTRA, *lines])
    return f"""{comment}type {name} struct {{
{text}
}}

func (v {name}) MarshalJSON() ([]byte, error) {{
	type plain {name}
	return joined(plain(v), v.Extra)
}}

func (v *{name}) UnmarshalJSON(data []byte) error {{
	type plain {name}
	return divided(data, (*plain)(v), &v.Extra)
}}
"""


def field_line(field: Form, types: dict[str, Form]) -> str:
    kind = written(field["type"])
    name = "".join(part.capitalize() for part in field["name"].split("_")) or "Empty"
    name = f"{name}_" if name == "Extra" else name
    if not field["required"] and written(final(field["type"], types)) != RAW:
        kind = f"*{kind}"  # Else an empty text or list would be an absent one.
    doc = f" // {one_line(field['doc'])}" if field["doc"] else ""
    tag = json.dumps(field["wire"] + ("" if field["required"] else ",omitempty"))
    return f"\t{name} {kind} `json:{tag}`{doc}"


def main() -> None:
    revision = revision_of(__file__)
    types: dict[str, Form] = revision["types"]
    head = f"{title(revision)}\npackage mcp\n"
    shapes = json.dumps({name: shape(form) for name, form in types.items()}, ensure_ascii=True)
    news = "".join(f"\t{json.dumps(name)}: func() any {{ return new({name}) }},\n" for name in types)
    rows = "".join(f"\t{{{', '.join(map(json.dumps, row))}}},\n" for row in messages(revision))
    texts = "\n".join(declared(form, types) for form in types.values())
    validator = re.split(r"^package \w+$", (FILES / "validate.go").read_text(encoding="utf-8"), flags=re.M)[1]
    files = {
        "types.go": f'{head}\nimport "encoding/json"\n\n{texts}',
        "tables.go": (
            f"{head}\n// Revision is the version of the protocol.\nconst Revision = {json.dumps(revision['id'])}\n\n"
            f"// Methods has a row for each message.\nvar Methods = []Method{{\n{rows}}}\n\n"
            f"var makers = map[string]func() any{{\n{news}}}\n\nconst shapes = {json.dumps(shapes)}\n"
        ),
        "validate.go": head + validator,
    }
    write(files)


if __name__ == "__main__":
    main()
