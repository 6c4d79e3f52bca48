"""How the process is put together: the ASGI application, OpenAPI, health and workers. Never opens a connection to a store."""
