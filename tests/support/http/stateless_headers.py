"""Headers of a stateless request, row by row: those that are rejected, and those that are accepted."""

from __future__ import annotations

from typing import Any

import pytest

MISMATCH = -32020

REFUSED: list[Any] = [
    pytest.param({"mcp-protocol-version": None}, 400, None, id="the revision has to be named"),
    pytest.param({"mcp-protocol-version": "2025-11-25"}, 400, MISMATCH, id="the revision is that of the body"),
    pytest.param({"mcp-method": None}, 400, MISMATCH, id="the method has to be repeated"),
    pytest.param({"mcp-method": "tools/list"}, 400, MISMATCH, id="the method is that of the body"),
    pytest.param({"mcp-method": "TOOLS/CALL"}, 400, MISMATCH, id="values of headers have a case"),
    pytest.param({"mcp-name": None}, 400, MISMATCH, id="the name has to be repeated"),
    pytest.param({"mcp-name": "y"}, 400, MISMATCH, id="the name is that of the body"),
    pytest.param({"mcp-name": "=?base64?eQ==?="}, 400, MISMATCH, id="the name is decoded before it is compared"),
    pytest.param({"mcp-name": "=?base64?!?="}, 400, MISMATCH, id="a name that cannot be decoded is not a name"),
    pytest.param({"origin": "http://evil.example"}, 403, None, id="a foreign page is forbidden"),
    pytest.param({"accept": "text/html"}, 406, None, id="both kinds of answer have to be taken"),
]
ACCEPTED: list[Any] = [
    pytest.param({}, id="all is said"),
    pytest.param({"mcp-name": "=?base64?eA==?="}, id="the name may come in its Base64 form"),
    pytest.param({"mcp-param-unknown": "1"}, id="unknown headers of arguments are ignored"),
    pytest.param({"mcp-session-id": "s", "last-event-id": "e-1"}, id="what sessions had is ignored"),
]
