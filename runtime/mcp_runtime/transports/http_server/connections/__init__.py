"""The connections of a server that uvicorn runs: their number, their deadlines and the bytes that they hold."""
