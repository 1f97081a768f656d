"""OAuth 2.1 in its three roles: client, resource server and authorization server.

See https://modelcontextprotocol.io/specification/draft/basic/authorization.
"""
