"""Modules are formatted as black formats them, though black reads few of their lines."""

from __future__ import annotations

from pathlib import Path

import black
import pytest

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.generate import module_texts
from mcp_codegen.paths import data_path
from mcp_codegen.render.layout.formatter import MODE, format_texts
from mcp_codegen.render.layout.logical_lines import UnreadFormError, logical_lines

LONG = ", ".join(f"argument_{number}: int = {number}" for number in range(12))
NAMES = ", ".join(f"Name{number}" for number in range(30))

# Modules that are read as logical lines, with what black does to them.
READ = {
    "a long header": f'class A:\n    """A."""\n    def f(self, {LONG}) -> int:\n        """F."""\n        return 1\n',
    "a decorator, and empty lines after it": "@final\n\ndef f():\n    return 1\nx = 1\n",
    "decorators": (
        f"@f('a')\n@f({NAMES})\ndef f():\n    pass\n"
        f"class A:\n    @f({NAMES}).g\n    @f(a if b else c)\n    class B:\n        pass\n"
    ),
    "a comment before a class": "x = 1\n# A.\n# B.\nclass A:\n    x = 1\n    # C.\n    def f(self):\n        pass\n",
    "a comment after an empty line": "x = 1\n\n# A.\nclass A:\n    pass\n# B.\n\n# C.\ndef f():\n    pass\n",
    "a comment at the end of a block": "class A:\n    x = 1\n    # A.\n\nclass B:\n    y = 1\n# B.\n",
    "too many empty lines": "import os\n\n\n\n\n\nx = 1\n\n\n\n\n\nclass A:\n\n\n\n    x = 1\n\n\n\n    y = 1\n",
    "imports without empty lines": f"from a import {NAMES}\nimport b\nx = 1\ndef f():\n    import d\n    x = d\n",
    "single quotes": "x = 'a'\ny = {'a': ('b', 'c'), \"d\": 'it\"s'}\nclass A:\n    z: str = 'a'\n    '''Text.'''\n",
    "trailing commas": "x = (1, 2,)\ny = f(1,)\nz = (1,)\ndef f(a, b,):\n    return [a, b,]\n",
    "odd spaces": "x=1\ny = f( 1,2 )\nz:int=1\ndef f(a:int=1)->int:\n    return-1\n",
    "parentheses": "x = (1)\nfor a in (1, 2):\n    pass\nprint((yield))\nreturn (a, b)\nwith (a) as b:\n    pass\n",
    "operators": "x = a**b\ny = a ** -b\nz = not(a)\nw = a if b else c\nv = a[1:2]\n",
    "else": "if TYPE_CHECKING:\n    import a\nelse:\n    a = 1\nif x:\n    def f():\n        pass\nelse:\n    f = 1\n",
    "a region": "class A:\n    # fmt: off\n    x   = 1\n    y = [1,\n      2]\n    # fmt: on\n    z   = 1\n",
    "a region up to the end": "import a\n# fmt: off\nx   = {\n  1:2}\n",
    "a comment after a statement": "x   = 1  # Why.\ny = 1\n",
    "a docstring after comments": '# A.\n# B.\n"""Doc."""\nimport a\n',
    "a docstring of several lines": 'class A:\n    """Doc.\n\n    More:\n      deeper\n    """\n    x = 1\n',
    "a long line that cannot be split": f"x = {'a' * 130!r}\n",
    "a table": f"T = {{'a': ('b', {{'c': ({LONG.replace('=', ',').replace(':', ',')!r}, 1, None, ('d',))}})}}\n",
    "equal lines": f"x = f({NAMES})\nclass A:\n    x = f({NAMES})\n    def f(self):\n        x = f({NAMES})\n",
}
# Modules that only black reads.
NOT_READ = {
    "a comment in a statement": "x = [\n    1,  # One.\n    2,\n]\n",
    "two statements in a line": "x = 1; y = 2\n",
    "a block in the line of its header": "class A: pass\n",
    "try": "try:\n    x = 1\nexcept E:\n    y   = 1\n",
    "elif": "if a:\n    b = 1\nelif c:\n    d = 1\n",
    "tabs": "class A:\n\tx = 1\n",
    "two spaces": "class A:\n  x = 1\n",
    "a comment of a smaller depth": "class A:\n    x = 1\n# A.\n    y = 1\n",
    "a comment without a space": "#A\nx = 1\n",
    "a form feed": "x = 1\n\f\ny = 1\n",
}
# Docstrings that black changes.
DOCSTRINGS = [
    '" Doc."',
    '"""Doc. """',
    "'''Doc.'''",
    '"""\n    Doc."""',
    '"""Doc.\n  less\n    """',
    r'"""Doc\\."""',
    '""" """',
]


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_modules_are_formatted_as_by_black(text: str) -> None:
    assert logical_lines(text)
    assert format_texts([text]) == [black.format_str(text, mode=MODE)]


@pytest.mark.parametrize("text", NOT_READ.values(), ids=NOT_READ)
def test_modules_with_other_forms_are_formatted_by_black(text: str) -> None:
    with pytest.raises(UnreadFormError):
        logical_lines(text)
    assert format_texts([text]) == [black.format_str(text, mode=MODE)]


@pytest.mark.parametrize("docstring", DOCSTRINGS)
def test_docstrings_are_formatted_as_by_black(docstring: str) -> None:
    texts = [f"{docstring}\nx = 1\n", f"class A:\n    {docstring}\n    x = 1\n", f"def f():\n    {docstring}\n"]
    assert format_texts(texts) == [black.format_str(text, mode=MODE) for text in texts]


def test_modules_are_formatted_together_as_one_after_the_other() -> None:
    texts = [*READ.values(), *NOT_READ.values()]
    assert format_texts(texts) == [format_texts([text])[0] for text in texts]


@pytest.mark.long
def test_the_bindings_of_a_revision_are_formatted_as_by_black(tmp_path: Path) -> None:
    schemas = SchemaCatalog(data_path("schema"))
    files = module_texts(schemas, (data_path("templates"),), tmp_path, [next(iter(schemas.pins))])
    texts = [text for path, text in files.items() if path.suffix == ".py"]
    formatted = format_texts(texts)
    assert len(texts) > 15
    assert formatted == [black.format_str(text, mode=MODE) for text in texts]
    assert formatted != texts
