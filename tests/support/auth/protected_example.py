"""The programs of examples/protected run as processes; where they listen comes out, and a person who uses them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from types import ModuleType

import httpx2
from support.processes import free_port
from support.project import ROOT

FOLDER = ROOT / "examples" / "protected"
SECRET = "a secret of the notes server"
PASSWORD = "lovelace"


@contextmanager
def running(program: str, *words: str) -> Iterator[str]:
    """The URL that a program says it listens at."""
    env = {**os.environ, "NOTES_SECRET": SECRET, "DELEGATE_SECRET": SECRET, "ADAS_PASSWORD": PASSWORD}
    command = [sys.executable, str(FOLDER / program), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        try:
            output = ""
            while not (match := re.search(r"http://127\.0\.0\.1:\d+\S*", output)):
                line = process.stderr.readline()
                assert line, output
                output += line
            yield match[0]
        finally:
            process.terminate()


@contextmanager
def both() -> Iterator[tuple[str, str]]:
    """The authorization server and the MCP server, each a process: their URLs."""
    port = free_port()
    with running("authorization.py", "0", f"http://127.0.0.1:{port}/mcp") as issuer:
        with running("server.py", str(port), issuer) as url:
            yield issuer, url


def client() -> ModuleType:
    """The example's client."""
    spec = importlib.util.spec_from_file_location("protected_client", FOLDER / "client.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def agree(url: str, decision: str = "allow") -> None:
    """Do what a person does in a browser: sign in, decide, and go on, as long as there is something to decide."""
    with httpx2.Client(follow_redirects=True, trust_env=False) as web:
        page = web.get(url)
        for _ in range(10):
            if 'name="password"' in page.text:
                page = web.post(page.url, data={"name": "ada", "password": PASSWORD})
            elif 'name="ticket"' in page.text:
                form = {"ticket": _only_match(r'name="ticket" value="([^"]*)"', page.text), "decision": decision}
                page = web.post(_only_match(r'action="([^"]*)"', page.text), data=form)
            elif "http-equiv" in page.text:
                page = web.get(_only_match(r'http-equiv="refresh" content="0; url=([^"]*)"', page.text))
            else:
                return


def _only_match(pattern: str, page: str) -> str:
    match = re.search(pattern, page)
    assert match, page
    return unescape(match[1])
