"""The client before a bridge: sessions and stateless requests, and how they use an upstream."""
