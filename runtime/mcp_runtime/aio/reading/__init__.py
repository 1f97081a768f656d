"""How the event loop of a server over stdio learns of messages: fast paths on Linux."""
