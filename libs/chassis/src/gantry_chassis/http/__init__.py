"""The HTTP port of a service: connection, routes, the rules for web pages, and the health check."""
