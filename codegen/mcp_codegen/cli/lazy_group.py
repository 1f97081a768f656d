"""A group of commands that imports a command when it is used, so that starting one does not load the others."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A click group with a table: the name of a command, and `module:attribute` of its object."""

    def __init__(self, *args: Any, table: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._table, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._table[cmd_name].partition(":")
        command: object = getattr(import_module(module, __package__), attribute)
        assert isinstance(command, click.Command)
        return command
