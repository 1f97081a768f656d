"""How a worker of a server of this folder shows that it begins to serve."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from passing_time import follow
from processes import mark_of

from mcp_generated import App


@asynccontextmanager
async def marked(app: App) -> AsyncIterator[None]:
    """Make the file of this process: a lifespan."""
    read = follow(os.environ["STORED"])
    mark_of(os.environ["STORED"], os.getpid()).touch()
    read()  # Whoever lets time pass has written it before this, or signals all that have such a file.
    yield
