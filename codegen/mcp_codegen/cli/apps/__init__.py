"""The commands for authors and users of servers: run, inspect, call, configure."""
