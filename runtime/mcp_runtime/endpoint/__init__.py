"""What clients and servers share."""
