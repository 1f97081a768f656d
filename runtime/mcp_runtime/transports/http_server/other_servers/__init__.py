"""ASGI servers other than uvicorn, for `run("http", server=…)`."""
