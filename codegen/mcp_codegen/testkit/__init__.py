"""The test kit: test vectors with their conversions, a mock of either side, and recorded connections."""
