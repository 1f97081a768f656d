"""A server that wants authorization goes in, requests that it takes come out."""
