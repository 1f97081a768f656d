"""Schema text is untrusted: whatever it says, the generated modules hold the same kinds of statements, and no other."""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.schemas.invented import folder, message, record, skeleton, union

from mcp_codegen.errors import CodegenError
from mcp_codegen.generate import generate
from mcp_codegen.model.names import field_names, type_name
from mcp_codegen.paths import template_folders

CANARY = "__import__('builtins').__dict__.__setitem__('stung', 1)"
HOSTILE = [
    *('"', "'", '"""', "'''", "\\", "\\\\", '\\"', "\n", "\r\n", "\t", "\0", "\x1b[31m", "\u2028", "\ud7ff", "😀", "é"),
    *("{{ 7 * 7 }}", "{% raw %}", "{# #}", "{x}", "{0!r}", "%s", "$x", "#", ";", "import os", "type: ignore"),
    *("class", "None", "True", "self", "options", "params", "__init__", "__class__", "model_config", "model_fields"),
    *("schema", "json", "copy", "validate", "fooBar", "foo_bar", "foo-bar", "FooBar", "1", "_", "__", "", " ", "a b"),
    *(
        "Annotated",
        "Literal",
        "str",
        "int",
        "WireModel",
        "Opt",
        "mcp-token-0",
        '"mcp-token-1"',
        '"""\nmcp-token-2\n"""',
        "$ref",
        "type",
    ),
    *(f'"""\n{CANARY}\n"""', f'"); {CANARY}  #', f"' + {CANARY} + '", f"\\\n{CANARY}", f'x" = {CANARY}; y = "'),
]
texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(max_size=12), st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join)
)
names = st.lists(texts.filter(lambda text: text != "_meta"), unique=True, max_size=5)

# What a generated module may call, and which kinds of syntax it may be made of.
CALLS = {
    *(
        "Field",
        "TypeAliasType",
        "const",
        "default_to",
        "Request",
        "Notification",
        "InputRequest",
        "InterimResult",
        "Revision",
        "Handshake",
        "HTTPProfile",
        "LazyModule",
    ),
    *(
        "lazy_module",
        "TypeReferences",
        "rows_of",
        "_send_request",
        "_send_request_for",
        "_send_notification",
        "_paginate",
        "_run",
        "_iterate",
        "_not_handled",
    ),
}
FORBIDDEN = (
    *(
        ast.Lambda,
        ast.Global,
        ast.Delete,
        ast.For,
        ast.While,
        ast.Try,
        ast.With,
        ast.Assert,
        ast.NamedExpr,
    ),
    *(ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Import, ast.Starred, ast.Yield, ast.Compare),
)
ANNOTATED_BINARY = ast.BitOr
OWN_TYPES = "f'{__package__}.types'"  # The module of types, which has nothing of the schema.


def assert_harmless(source: str, where: str) -> None:
    for node in ast.walk(ast.parse(source)):
        assert not isinstance(node, FORBIDDEN), f"{where}: {type(node).__name__}"
        if isinstance(node, ast.JoinedStr):
            assert ast.unparse(node) == OWN_TYPES, f"{where}: {ast.unparse(node)}"
        if isinstance(node, ast.BinOp):
            assert isinstance(node.op, ANNOTATED_BINARY), where
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "?")
            assert called in CALLS or ast.unparse(node.func) == f"self.client.{called}", f"{where}: calls {called}"
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in {
                "__future__",
                "typing",
                "typing_extensions",
                "pydantic",
                "mcp_products",
                "mcp_runtime",
            } or node.level


# Without shrinking, which would take minutes: an example runs the whole generator.
@pytest.mark.long
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(
    properties=names,
    values=st.lists(texts, unique=True, min_size=1, max_size=4),
    method=texts,
    sentence=texts,
    kind=texts,
)
@pytest.mark.advisory("CVE-2026-63720")
def test_no_text_of_a_schema_becomes_syntax(
    properties: list[str], values: list[str], method: str, sentence: str, kind: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        package = root / "evil_bindings"
        files = written(root / "schema", package, properties, values, method, sentence, kind)
        for path, source in files.items():
            if path.parent == package:  # What holds for all revisions takes nothing from any schema.
                assert source == plain()[path.name]
            else:
                assert_harmless(source, path.name)
        types = loaded(package, files)
        fields = types["Thing"].model_fields
        wires = {attribute if field.alias is None else field.alias for attribute, field in fields.items()}
        assert wires == set(properties)
        assert types["Tagged"](choice=values[0]).model_dump() == {"kind": kind, "choice": values[0]}
        assert not hasattr(builtins, "stung")


def test_properties_may_be_called_like_the_types_of_annotations(tmp_path: Path) -> None:
    names = ["str", "int", "float", "bool", "list", "dict"]
    package = tmp_path / "typed_bindings"
    files = written(tmp_path / "schema", package, [*names, "text"], ["b"], "c", "d", "e")
    thing = loaded(package, files)["Thing"]
    values = {name: name for name in [*names, "text"]}
    assert thing.model_validate(values).model_dump(by_alias=True) == values
    assert thing(str_="a", int_="b", text="c").model_dump(by_alias=True) == {"str": "a", "int": "b", "text": "c"}


@cache
def plain() -> dict[str, str]:
    """What is generated for all revisions, by name, from a schema without anything hostile in it."""
    with tempfile.TemporaryDirectory() as name:
        package = Path(name) / "evil_bindings"
        files = written(Path(name) / "schema", package, ["a"], ["b"], "c", "d", "e")
        return {path.name: source for path, source in files.items() if path.parent == package}


def written(
    home: Path, package: Path, properties: list[str], values: list[str], method: str, sentence: str, kind: str
) -> dict[Path, str]:
    """What is generated from a schema with these texts in every place that takes one."""
    thing = record({name: {"type": "string"} for name in properties}, *properties[:1])
    tag = {"kind": {"type": "string", "const": kind}, "choice": {"type": "string", "enum": values}}
    method = f"evil/{method}"
    schema = skeleton(
        Thing=thing,
        Tagged=record(tag, "kind"),
        Other=record({"kind": {"type": "string", "const": kind + "!"}}, "kind"),
        Either=union("Tagged", "Other"),
        EvilRequest=message(method, {"$ref": "#/$defs/Thing"}),
    )
    schema["x-constants"] = {"EVIL": kind}
    docs = f"[types]\nThing = {quoted(sentence)}\nEvilRequest = {quoted(sentence)}\n"
    docs += "[properties]\n" + f'"Tagged.kind" = {quoted(sentence)}\n'
    schemas = folder(home, schema, no_capability_row(method), docs=docs)
    return generate(schemas, template_folders(), package, ["1"])


def quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def no_capability_row(method: str) -> str:
    return f"\n[[capability]]\nmethod = {quoted(method)}\nuse = ''\nreason = 'a test'\n"


def loaded(package: Path, files: dict[Path, str]) -> dict[str, Any]:
    """Write the package, import all of it, and give its types."""
    for path, source in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    sys.path.insert(0, str(package.parent))
    try:
        for module in ("client", "server", "sync", "methods"):
            importlib.import_module(f"{package.name}.v1.{module}")
        return vars(importlib.import_module(f"{package.name}.v1.types"))
    finally:
        sys.path.remove(str(package.parent))
        for module in [name for name in sys.modules if name.partition(".")[0] == package.name]:
            del sys.modules[module]


def test_a_description_of_100_kb_is_a_docstring_and_nothing_else(tmp_path: Path) -> None:
    sentence = ("word " * 20_000) + '"""\\'
    schemas = folder(tmp_path, skeleton(Thing=record({})), docs=f"[types]\nThing = {quoted(sentence)}\n")
    files = generate(schemas, template_folders(), tmp_path / "out", ["1"])
    tree = ast.parse(files[tmp_path / "out" / "v1" / "types.py"])
    thing = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Thing")
    assert (ast.get_docstring(thing) or "").split() == sentence.split()


@pytest.mark.parametrize("clashing", [("foo-bar", "foo bar"), ("Thing!", "Thing?")])
def test_two_types_that_would_get_one_name_are_refused_by_both_names(tmp_path: Path, clashing: tuple[str, str]) -> None:
    schema = skeleton(
        **{clashing[0]: record({"a": {"type": "string"}}), clashing[1]: record({"b": {"type": "string"}})}
    )
    with pytest.raises(CodegenError, match="the name of another type"):
        folder(tmp_path, schema).revision("1")


def test_properties_that_collide_after_snake_casing_keep_their_wire_names() -> None:
    names = field_names(["fooBar", "foo_bar", "foo-bar", "FooBar"])
    assert names["foo_bar"] == "foo_bar"
    assert len(set(names.values())) == 4
    assert all(name.isidentifier() for name in names.values())


@pytest.mark.long
@given(texts)
def test_every_name_is_an_ascii_identifier(text: str) -> None:
    (attribute,) = field_names([text]).values()
    for name in (attribute, type_name(text)):
        assert name.isidentifier() and name.isascii() and not name.startswith("_")
