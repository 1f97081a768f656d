"""The page of a gateway in the browser: its servers, their tools, calls, losses and log, to read only."""
