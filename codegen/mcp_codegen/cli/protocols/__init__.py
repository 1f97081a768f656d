"""The commands for other protocols and for other languages."""
