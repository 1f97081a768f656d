"""What one system or event loop needs of its own: Windows, threads for pipes, trio, private files."""
