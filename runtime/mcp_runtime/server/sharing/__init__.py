"""What the workers of one server share of its sessions."""
