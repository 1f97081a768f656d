"""Log records of a program that go to clients."""
