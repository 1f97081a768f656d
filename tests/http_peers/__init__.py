"""Official clients and our server over HTTP."""
