"""JSON-RPC messages that pass as they are: connections and sessions that validate only the lifecycle."""
