"""What a live server offers goes in; typed wrappers of it, a lock of its contract, and what changed since come out."""
