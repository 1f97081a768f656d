"""The HTTP endpoints of the official SDK: the session manager, its security settings, and its event store."""
