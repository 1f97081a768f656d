"""The HTTP endpoints of the official SDK: their hosts, their event stores and their keywords."""
