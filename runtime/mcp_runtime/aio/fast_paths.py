"""The switches of the fast paths. `MCP_FAST_PATHS=0` in the environment selects the plain asyncio code, which behaves
the same, for debugging and for tests."""

from __future__ import annotations

import os
from typing import Final

ENABLED: Final = os.environ.get("MCP_FAST_PATHS", "1") != "0"

# A server over stdio polls for the next message for 50 µs before it sleeps, if the last one came that soon.
BUSY_POLL: Final = ENABLED and os.environ.get("MCP_BUSY_POLL", "1") != "0"
