"""The storage of an authorization server in the store that several workers share."""
