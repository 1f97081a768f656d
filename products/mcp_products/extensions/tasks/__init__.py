"""The tasks extension: run long calls as tasks that clients poll for their results."""
