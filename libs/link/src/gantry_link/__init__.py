"""Remoting server and client connections on asyncio, and typed clients of nameserver and store."""
