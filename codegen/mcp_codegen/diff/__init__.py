"""What changed between two revisions: compared by method, type and field, judged for clients and for servers, shown."""
