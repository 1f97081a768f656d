"""What generated types have for people, and no message needs."""
