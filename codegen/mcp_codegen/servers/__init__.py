"""Live servers: typed wrappers, a lock of the contract, and the changes since."""
