"""The API reference: a page for each public module, made of signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, is_typeddict

AREAS: Final = (
    *("auth", "code_mode", "dependencies", "http", "middleware", "providers", "sampling", "tenants"),
    *("tasks", "skills", "testing", "transforms", "compat"),
)
# The module of a protocol version; the others have the same classes with the methods of their versions.
VERSION: Final = "v2026_07_28"
MODULES: Final = ("mcp_generated", *(f"mcp_generated.{area}" for area in AREAS), f"mcp_generated.{VERSION}")
_SECTION: Final = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example|Examples|Note|Notes):$", re.M)
_WIDE: Final = 84
_LONG: Final = 2_400  # Characters of an entry above which it gets a page of its own.
_STARS: Final[dict[object, str]] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_OURS: Final = ("mcp_runtime", "mcp_products", "mcp_generated")


def page_of(module: str) -> str:
    """Return the path on the site of the page of a public module."""
    return f"reference/{module.removeprefix('mcp_generated.')}.md"


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module is for; a package of a version has its classes."""
    if module.__name__.endswith(VERSION):
        return ["Client", "SyncClient", "Server", "Context"]
    return sorted(module.__all__, key=str.lower)


def anchor(module: ModuleType, name: str) -> str:
    """Return the anchor of a public name, which is the same in each build. Anchors have no upper case, so the second of
    two names that differ in nothing else has a number."""
    slug = re.sub(r"[^a-z0-9]+", "-", f"{module.__name__}.{name}".lower())
    number = sorted(other for other in public_names(module) if other.lower() == name.lower()).index(name)
    return f"{slug}-{number + 1}" if number else slug


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page of the reference."""
    modules = [import_module(name) for name in MODULES]
    yield "reference/index.md", _index(modules)
    for module in modules:
        yield from _module(module)


def _index(modules: list[ModuleType]) -> str:
    rows = [f"| [`{module.__name__}`]({_file(module)}) | {_summary(module)} |" for module in modules]
    toctree = "\n".join(_file(module) for module in modules)
    return (
        "# API reference\n\nWhat a program may import. A name that is not here is internal, and may change in any\n"
        "release; [versioning](../versioning.md) has the rules. The types of a protocol version, such as `Tool` or\n"
        "`CallToolResult`, are in `mcp_generated.vYYYY_MM_DD.types`; the [explorer](../explorer.md) has them.\n\n"
        "| module | what it is for |\n|---|---|\n"
        + "\n".join(rows)
        + f"\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"
    )


def _module(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the page of a module, and those of its names that have much to read."""
    page = page_of(module.__name__)
    entries: list[str] = []
    own: list[str] = []
    for name in public_names(module):
        entry = _name(module, name)
        if len(entry) > _LONG:
            path = f"{page.removesuffix('.md')}-{name}.md"
            # Its methods become headings, which the page lists.
            yield path, re.sub(r"^\*\*(`\w+`)\*\*", r"## \1", entry.replace("\n## ", "\n# ", 1), flags=re.M)
            own.append(path.removeprefix("reference/"))
            entry = f"## `{name}`\n\n[Its own page]({own[-1]}): {_first_sentence(_own_doc(getattr(module, name)))}\n"
        entries.append(entry)
    text = "\n".join([f"# {module.__name__}\n\n{_prose(inspect.getdoc(module) or '')}\n", *entries])
    children = "\n".join(own)
    yield page, text + (f"\n```{{toctree}}\n:hidden:\n\n{children}\n```\n" if own else "")


def _name(module: ModuleType, name: str) -> str:
    """Return the entry of a public name. Names of the official SDK are documented there, and get one sentence."""
    value = getattr(module, name)
    target = f"({anchor(module, name)})="
    if module.__name__.endswith(".compat"):
        doc = _own_doc(value) if inspect.isclass(value) else inspect.getdoc(value) or ""
        return f"{target}\n**`{name}`**: {_escaped(_first_sentence(doc)) or 'as in the official SDK.'}\n"
    head = f"{target}\n\n## `{name}`\n"
    if inspect.ismodule(value):
        return f"{head}\nA module: {_summary(value)}\n"
    if inspect.isclass(value):
        return "\n".join([head, _function(f"class {name}", value, _own_doc(value)), *_members(module, value)])
    if callable(value):
        return "\n".join([head, _function(name, value, inspect.getdoc(value) or "")])
    return f"{head}\n{_constant(value)}\n"


def _constant(value: object) -> str:
    shown = repr(value)
    if len(shown) > 200 or re.search(r" at 0x", shown):
        return f"A `{type(value).__name__}`."
    return f"A `{type(value).__name__}`: `{shown}`."


def _members(module: ModuleType, cls: type) -> Iterator[str]:
    """Yield the public methods and properties of a class that this project defines, in alphabetical order.

    Those of a base class with an entry in the same module are only named."""
    public = {id(getattr(module, name)) for name in public_names(module)}
    defined: dict[str, object] = {}
    inherited: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith(_OURS):
            continue
        names = {name: value for name, value in vars(base).items() if not name.startswith("_")}
        defined |= names
        is_elsewhere = base is not cls and id(base) in public
        inherited |= {name: base.__name__ if is_elsewhere else "" for name in names}
    for name, value in sorted(defined.items()):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inherited[name]:
            continue
        if isinstance(function, property):
            yield f"**`{name}`**\n\nA property: {_indented(inspect.getdoc(function) or 'see the class.')}\n"
        elif inspect.isfunction(function):
            doc = inspect.getdoc(getattr(cls, name)) or ""
            yield f"**`{name}`**\n\n{_function(name, function, doc)}\n"
    for parent in sorted({*inherited.values()} - {""}):
        methods = ", ".join(f"`{name}`" for name in sorted(inherited) if inherited[name] == parent)
        yield f"As in `{parent}`: {methods}.\n"


def _own_doc(cls: type) -> str:
    """Return the docstring of a class, and that of its constructor, if the project wrote them."""
    init = cls.__dict__.get("__init__")
    parts = [cls.__doc__ or "", (init.__doc__ or "") if inspect.isfunction(init) else ""]
    return "\n\n".join(inspect.cleandoc(part) for part in parts if part and not part.startswith(f"{cls.__name__}("))


def _function(name: str, value: object, doc: str) -> str:
    """Return a signature as a block of code, the docstring, and the keywords that the signature does not have."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f"```python\n{name}\n```\n\n{_prose(doc)}"
    shown = [one for one in signature.parameters.values() if one.name != "self"]
    kinds = [one.kind for one in shown]
    parameters = [_parameter(one) for one in shown]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    is_typed = signature.return_annotation is not signature.empty and not name.startswith("class ")
    result = f" -> {_annotation(signature.return_annotation)}" if is_typed else ""
    start = f"{'async def ' if inspect.iscoroutinefunction(value) else ''}{name}"
    line = f"{start}({', '.join(parameters)}){result}"
    if len(line) > _WIDE:
        line = f"{start}(\n    {f',{chr(10)}    '.join(parameters)},\n){result}"
    return f"```python\n{line}\n```\n\n{_prose(doc)}\n{_keywords(signature)}"


def _keywords(signature: inspect.Signature) -> str:
    """Return what `**keywords: Unpack[Settings]` stands for: the names of the TypedDict, and its docstrings."""
    annotations = [one.annotation for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
    match = re.search(r"Unpack\[(?:\w+\.)*(\w+)\]", str(annotations[0])) if annotations else None
    typed = match and next((one for one in _typed_dicts() if one.__name__ == match[1]), None)
    if not typed:
        return ""
    names = ", ".join(f"`{name}`" for name in typed.__annotations__)
    inherited = [base for base in getattr(typed, "__orig_bases__", ()) if isinstance(base, type)]
    docs = [
        _prose(inspect.cleandoc(one.__doc__))
        for one in (typed, *inherited)
        if one.__doc__ and "dict" not in one.__doc__[:5]
    ]
    described = "\n".join(docs) if typed.__name__.endswith("Settings") else ""
    return f"\nFurther keywords: {names}.\n\n{described}"


@cache
def _typed_dicts() -> list[Any]:
    """Return the TypedDicts of the runtime, which hold the keywords of its functions."""
    ours = ("mcp_runtime", "mcp_products")
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(ours)]
    return [one for module in modules for one in vars(module).values() if is_typeddict(one)]


def _parameter(parameter: inspect.Parameter) -> str:
    star = _STARS.get(parameter.kind, "")
    typed = parameter.annotation is not parameter.empty
    text = star + parameter.name + (f": {_annotation(parameter.annotation)}" if typed else "")
    if parameter.default is parameter.empty:
        return text
    default: str = repr(parameter.default)
    if len(default) > 40 or re.search(r"<.* at 0x|^<", default):
        default = "…"
    return f"{text} = {default}" if typed else f"{text}={default}"


def _annotation(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    return re.sub(r"\b(?:[a-z_0-9]+\.)+(?=[A-Z_a-z])", "", str(annotation).replace("NoneType", "None"))


def _summary(module: ModuleType) -> str:
    """Return the first sentence of a module's docstring."""
    return _first_sentence(inspect.getdoc(module) or "")


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0]


def _file(module: ModuleType) -> str:
    return page_of(module.__name__).removeprefix("reference/")


def _indented(text: str) -> str:
    return " ".join(_prose(text).split())


def _prose(doc: str) -> str:
    """Return a docstring as Markdown: its sections become lists, and its examples blocks of code."""
    if not doc:
        return ""
    text, *sections = _SECTION.split(doc)
    parts = [_paragraphs(text)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        content, rest = _section_body(body)
        if title in ("Args", "Raises", "Attributes"):
            parts.append(f"*{title}*\n\n{_items(content)}")
        else:
            parts.append(f"*{title}*\n\n{_paragraphs(content)}")
        parts.append(_paragraphs(rest))
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


def _section_body(body: str) -> tuple[str, str]:
    """Return the indented lines of a section, and what follows it."""
    lines = body.strip("\n").splitlines()
    count = next((number for number, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    return textwrap.dedent("\n".join(lines[:count])), "\n".join(lines[count:])


def _items(body: str) -> str:
    """Return `name: text` lines as a list; deeper lines go on with the item above."""
    items: list[str] = []
    for line in body.splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        elif line.strip():
            name, colon, text = line.partition(":")
            items.append(f"* `{name.strip()}`:{text}" if colon else f"* {line.strip()}")
    return "\n".join(items)


def _paragraphs(text: str) -> str:
    """Return text whose indented blocks after an empty line are code."""
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    shown = [f"```python\n{textwrap.dedent(one)}\n```" if one.startswith("    ") else _escaped(one) for one in blocks]
    return "\n\n".join(one for one in shown if one.strip())


def _escaped(text: str) -> str:
    """Return prose in which nothing but code in backticks has a meaning for Markdown."""
    parts = re.split(r"(``[^`]+``|`[^`\n]*(?:\n[^`\n]*)?`|\]\([^)]*\)|https?://\S+)", text)
    return "".join(part if index % 2 else re.sub(r"([<>*_])", r"\\\1", part) for index, part in enumerate(parts))
