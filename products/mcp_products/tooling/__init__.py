"""What commands for authors start in processes of their own: launch a server, and introspect it."""
