"""The objects of the distribution `fastmcp`: tools, resources, prompts and their results, and its helpers of tests."""
