"""Values and helpers of the official SDK that are no part of a server or a client."""
