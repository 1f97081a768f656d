"""Server cards: the document that says where the endpoint of a server is, served by an app and read by clients."""
