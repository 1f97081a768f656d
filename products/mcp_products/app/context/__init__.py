"""The context of an app's functions: requests to the client and to the app itself, logging, state and views."""
