"""The chatbot finds the key of a model in the environment or in a file `.env`, and the model answers over HTTP."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from settings import load_env_file
from support.chatbot import DEADLINE, ECHO, converse
from support.installation.extras import needs

Received = list[tuple[dict[str, str], Any]]


class FakeAPI(BaseHTTPRequestHandler):
    """Answers like the Messages API: with a tool call, then with text, then with an error."""

    received: Received

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
        status, answer = [
            (200, {"content": [{"type": "tool_use", "id": "tu1", "name": "echo", "input": {"text": "hi"}}]}),
            (200, {"content": [{"type": "text", "text": "It is hi."}]}),
            (529, {"error": {"message": "Overloaded"}}),
        ][len(self.received) - 1]
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def fake_api() -> Iterator[tuple[str, Received]]:
    received: Received = []
    server = HTTPServer(("127.0.0.1", 0), type("API", (FakeAPI,), {"received": received}))
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join(DEADLINE)
        server.server_close()


@pytest.mark.long
@needs("http")
def test_with_a_key_in_a_file_env_a_real_model_answers(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    with fake_api() as (url, received):
        (tmp_path / ".env").write_text(f'# Keys\nANTHROPIC_API_KEY="sk-1"\nexport ANTHROPIC_BASE_URL={url} # fake\n')
        server = f"{sys.executable} {ECHO[1]} stdio"
        done = converse(server, typed="what is it?\ny\nand now?\n", cwd=tmp_path / "inner")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Tools: echo") and "It is hi." in lines, done.stdout + done.stderr
    assert lines[-1] == "The model failed: RuntimeError('the API answered 529: Overloaded')"
    (headers, first), (_, second), _ = received
    assert headers["x-api-key"] == "sk-1" and "sk-1" not in done.stdout
    assert first["messages"] == [{"role": "user", "content": "what is it?"}]
    assert first["tools"][0]["name"] == "echo" and first["tools"][0]["input_schema"]["type"] == "object"
    result = {"type": "tool_result", "tool_use_id": "tu1", "content": "hi", "is_error": False}
    assert second["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "tu1", "name": "echo", "input": {"text": "hi"}}]},
        {"role": "user", "content": [result]},
    ]


FORMS = {
    "PLAIN": ("a b#c", "a b#c # comment"),
    "EMPTY": ("", ""),
    "QUOTED": ("a # b\nc", r'"a # b\nc"  # comment'),
    "SINGLE": (r"a\nb", r"'a\nb'"),
    "IN_ENVIRONMENT": ("before", "after"),
}


def test_a_file_env_has_the_forms_of_other_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"IN_ENVIRONMENT": "before"})
    path = tmp_path / ".env"
    path.write_text("\n# comment\n" + "".join(f"{name} = {text}\n" for name, (_, text) in FORMS.items()))
    assert load_env_file(tmp_path) == path
    assert os.environ == {name: value for name, (value, _) in FORMS.items()}
    path.write_text("OK=1\nno assignment\n")
    with pytest.raises(ValueError, match="line 2"):
        load_env_file(tmp_path)
