"""Tokens without encryption: the server stores what they stand for."""

from __future__ import annotations

import pytest

from mcp_runtime.server import state_tokens
from mcp_runtime.server.state_tokens import InvalidTokenError, ProcessTokens


def test_a_token_is_the_name_of_a_value_for_one_request_and_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, now = ProcessTokens(lifetime=10), 1000.0
    monkeypatch.setattr(state_tokens.clocks, "wall", lambda: now)
    token = tokens.encrypt(b"secret", b"Ann's request")
    assert "secret" not in token and token != tokens.encrypt(b"secret", b"Ann's request")
    assert tokens.decrypt(token, b"Ann's request") == tokens.decrypt(token, b"Ann's request") == b"secret"
    for wrong, data in ((token, b"Bob's request"), (token + "A", b"Ann's request"), ("", b"")):
        with pytest.raises(InvalidTokenError):
            tokens.decrypt(wrong, data)
    with pytest.raises(InvalidTokenError):
        ProcessTokens().decrypt(token, b"Ann's request")
    now += 11
    with pytest.raises(InvalidTokenError, match="expired"):
        tokens.decrypt(token, b"Ann's request")


def test_old_values_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_tokens, "_MAX_STORED", 100)
    tokens = ProcessTokens()
    first, second, third = (tokens.encrypt(bytes([number]) * 40, b"1234567890") for number in range(3))
    with pytest.raises(InvalidTokenError):
        tokens.decrypt(first, b"1234567890")
    assert [tokens.decrypt(token, b"1234567890")[0] for token in (second, third)] == [1, 2]
    with pytest.raises(InvalidTokenError):
        tokens.decrypt(tokens.encrypt(b"x" * 101, b""), b"")
    assert tokens.decrypt(tokens.encrypt(b"y", b""), b"") == b"y"
