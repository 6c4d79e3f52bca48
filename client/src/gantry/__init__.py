"""The Python SDK of Gantry, and of RocketMQ's own broker: producers and consumers over remoting or HTTP, asyncio first."""
