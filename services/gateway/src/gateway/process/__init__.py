"""The process: the ASGI application, OpenAPI, health and workers. Never opens a connection to a store."""
