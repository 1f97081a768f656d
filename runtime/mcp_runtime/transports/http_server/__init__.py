"""HTTP on the server's side: exchanges, streams and sessions; ASGI is spoken in `faces.asgi`."""
