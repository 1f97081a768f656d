"""`gateway --check` names everything that is wrong in a file, with its line, and starts nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.feature_cells.bridge.bridge_processes import with_our_packages

from mcp_products.relay.gateway.__main__ import main
from mcp_products.relay.gateway.settings import read_settings
from mcp_products.relay.gateway_check.findings import check_file, lines_of
from mcp_runtime.errors import LocalError

WRONG = """\
# A file in which almost everything is wrong.
[gateway]
nmae = "office"
health = "health"

[upstreams.files]
command = "no-such-program-anywhere"
args = [
    "-m",
    "${NOT_SET_ANYWHERE}",
]
env = { TOKEN = "${NOT_SET_EITHER}", PORT = "${PORT:-1}" }
cwd = "/no/such/folder"

[upstreams.shop]
url = "https:/shop.example/mcp"
rates = 10
timeout = -1
deny = "write"
breaker = { failure = 3 }

[upstreams.shop.tools.buy]
hide = true
arguments = 3

[upstreams.mail]
url = "ftp://mail.example/mcp"
headers = { Authorization = "Bearer ${MAIL_TOKEN_NOT_SET}" }

[upstreams.crm]
url = "https://crm.example:99999/mcp"

[upstreams.crm.exchange]
token_endpoint = "auth.example/token"
client_id = "gateway"
client_secret = "${CRM_SECRET_NOT_SET}"

[upstreams.both]
url = "https://both.example/mcp"
command = "sh"

[upstreams.none]
timeout = 3

[upstreams.words]
command = "sh"
rates = 10
env = { PORT = 8000 }

[auth]
resource = "https://gateway.example/mcp"
provider = "keycloak"
domain = "${SSO_NOT_SET}"
realm = "office"
"""
FOUND = [
    (3, "[gateway] has no key 'nmae'; did you mean 'name'?"),
    (4, 'write health = "/health"'),
    (7, "command 'no-such-program-anywhere' cannot be started, no folder of PATH has it"),
    (8, "NOT_SET_ANYWHERE, which is not set"),
    (12, "NOT_SET_EITHER, which is not set"),
    (13, "cwd '/no/such/folder' is not a folder"),
    (16, "it names no host"),
    (17, "has no key 'rates'; did you mean 'rate'?"),
    (18, "timeout is a number above 0"),
    (19, 'write deny = ["read_*"]'),
    (20, "has no key 'failure'; did you mean 'failures'?"),
    (23, "has no key 'hide'; did you mean 'hidden'?"),
    (24, "arguments is a table of fixed values"),
    (27, "it has to begin with https:// or http://"),
    (28, "MAIL_TOKEN_NOT_SET, which is not set"),
    (31, "cannot be right"),
    (34, "it has to begin with https:// or http://"),
    (36, "CRM_SECRET_NOT_SET, which is not set"),
    (38, "cannot have"),
    (42, "'command' is missing"),
    (47, "has no key 'rates'"),
    (48, "'env' must be a string, not 8000"),
    (53, "SSO_NOT_SET, which is not set"),
]


def written(folder: Path, text: str) -> Path:
    """Return a file with a text."""
    file = folder / "gateway.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_everything_that_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, WRONG)
    lines = check_file(file)
    assert [int(line.removeprefix(f"{file}:").split(":")[0]) for line in lines] == [number for number, _ in FOUND]
    for line, (_, words) in zip(lines, FOUND, strict=True):
        assert words in line, (words, line)


RIGHT = """\
[gateway]
name = "office"

[upstreams.files]
command = "${PYTHON_FOR_TEST:-PYTHON}"
args = ["-c", '''
[upstreams.no_table]
wrong = 1
''']
breaker = { failures = 3, delay = 10 }

[upstreams."with.dot"]
prefix = "dot"
url = "http://127.0.0.1:8000/mcp"
tools.buy.arguments = { a = 1 }

[auth]
resource = "https://gateway.example/mcp"
provider = "keycloak"
domain = "sso.example.com"
realm = "office"
"""


def test_a_file_that_is_right_is_right_and_nothing_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "\ufeff" + RIGHT.replace("PYTHON}", f"{sys.executable}}}"))
    assert check_file(file) == []
    assert main([str(file), "--check"]) == 0 and main(["--check", str(file)]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("url", ["https://", "http://a b/mcp", "https://x:port/mcp", "/mcp", "https://x/mcp#part", "x"])
def test_a_url_that_cannot_be_right_is_named(tmp_path: Path, url: str) -> None:
    (line,) = check_file(written(tmp_path, f'[upstreams.a]\n\nurl = "{url}"\n'))
    assert ":3: [upstreams.a] the URL" in line and "cannot be right" in line


def test_secrets_of_urls_are_not_shown(tmp_path: Path) -> None:
    (line,) = check_file(written(tmp_path, '[upstreams.a]\nurl = "ftp://ada:hunter2@x.example/mcp?key=hunter2"\n'))
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[upstreams.a]\nurl = \n", None, "line 2"),
        ("", 1, "the file has no upstreams"),
        ("[gateway]\nlive = '/x'\nready = '/x'\n[upstreams.a]\ncommand='sh'\n", 1, "live and ready have the same path"),
        (
            "[upstreams.a]\ncommand='sh'\ntools = { b = { name = 'd' }, c = { name = 'd' } }\n",
            3,
            "'b' and 'c' have the same",
        ),
        ("[upstreams.a]\ncommand='sh'\ntools.b.arguments = { on = 2026-01-01 }\n", 3, "values that JSON has"),
        ("[upstreams.a]\ncommand='sh'\ntools.b.arguments = { on = nan }\n", 3, "values that JSON has"),
        ("x = 1\n[upstreams.a]\ncommand='sh'\n", 1, "has no key 'x'"),
        ("[upstreams.a]\ncommand='sh'\n[upstreams.a_b]\ncommand='sh'\n", 1, "another prefix"),
        ("[upstreams]\na = 3\n", 2, "is a table"),
        ("upstreams.a.comand = 'sh'\n", 1, "did you mean 'command'"),
    ],
)
def test_what_is_wrong_with_the_whole_file_is_named(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    file = written(tmp_path, text)
    if line is None:
        with pytest.raises(LocalError, match=message):
            check_file(file)
    else:
        (found,) = check_file(file)
        assert found.startswith(f"{file}:{line}: ") and message in found, found


def test_lines_of_texts_and_lists_are_not_those_of_tables() -> None:
    lines = lines_of('[a]\nx = """\n[b]\ny = 1\n"""\nz = [\n"w = 1",\n]\n[a.c]\n"q r" = 1\n')
    assert lines == {(): 1, ("a",): 1, ("a", "x"): 2, ("a", "z"): 6, ("a", "c"): 9, ("a", "c", "q r"): 10}


@pytest.mark.long
def test_the_command_line_says_all_of_it_and_exits_with_one(tmp_path: Path) -> None:
    file = written(tmp_path, WRONG)
    command = with_our_packages(sys.executable, "-m", "mcp_codegen", "gateway", "--check", str(file))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.splitlines()) == len(FOUND)
    assert done.stderr.startswith(f"error: {file}:3: ")


def test_keys_of_the_other_kind_of_server_are_refused_with_their_line(tmp_path: Path) -> None:
    """They were ignored: a token in `headers` beside a command went nowhere."""
    text = """\
[upstreams.files]
command = "sh"
timeout = 3
headers = { Authorization = "Bearer x" }

[upstreams.shop]
args = ["--fast"]
cwd = "/"
url = "https://shop.example/mcp"
env = { TOKEN = "x" }

[upstreams.empty]
url = "https://empty.example/mcp"
args = []
"""
    file = written(tmp_path, text)
    with pytest.raises(LocalError, match=r"\[upstreams.files\] 'headers' is for a server with a URL: leave it out"):
        read_settings(file)
    assert [line.removeprefix(f"{file}:").split(": leave")[0] for line in check_file(file)] == [
        "4: [upstreams.files] 'headers' is for a server with a URL",
        "7: [upstreams.shop] 'args' is for a server with a command",
        "8: [upstreams.shop] 'cwd' is for a server with a command",
        "10: [upstreams.shop] 'env' is for a server with a command",
    ]
