"""The authorization server of the official SDK: its endpoints as Starlette routes, over a provider of the program."""
