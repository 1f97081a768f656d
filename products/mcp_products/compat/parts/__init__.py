"""What servers and OAuth clients of the official SDK are made of, for programs that use these parts by themselves."""
