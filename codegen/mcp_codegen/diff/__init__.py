"""The changes between two revisions, by method, type and field, rated for clients and for servers."""
