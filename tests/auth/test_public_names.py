"""The names of `mcp_generated.auth`: complete, visible, and loaded one by one."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from enum import Enum
from pathlib import Path

import mcp_generated.auth as auth
from mcp_runtime.session.interfaces import AuthenticatedUser


def test_all_names_can_be_imported_and_are_listed() -> None:
    assert sorted(auth.__all__) == sorted(set(auth.__all__))
    assert set(auth.__all__) <= set(dir(auth))
    for name in auth.__all__:
        assert getattr(auth, name).__name__ == name
    assert auth.AuthenticatedUser is AuthenticatedUser


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(auth.__file__ or "").read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.asname or alias.name for node in imports for alias in node.names) == sorted(auth.__all__)


def test_constructors_document_each_parameter() -> None:
    for name in auth.__all__:
        cls = getattr(auth, name)
        if getattr(cls, "_is_protocol", False) or issubclass(cls, Enum):
            continue
        text = f"{cls.__doc__}\n{cls.__init__.__doc__}"
        for parameter in inspect.signature(cls).parameters:
            assert f"    {parameter}: " in text, f"{name}({parameter}=)"


def test_importing_one_role_does_not_load_the_others() -> None:
    code = (
        "import sys\n"
        "import mcp_generated.auth\n"
        "assert not [name for name in sys.modules if name.startswith('mcp_products.auth.')]\n"
        "from mcp_generated.auth import OAuthClientProvider\n"
        "loaded = [name for name in sys.modules if name.startswith('mcp_products.auth.')]\n"
        "assert 'mcp_products.auth.client.provider' in loaded\n"
        "assert not [name for name in loaded if 'server' in name], loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
