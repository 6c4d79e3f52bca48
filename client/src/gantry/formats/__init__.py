"""How RocketMQ's clients and the gateway write bodies, names and ids. Never opens a connection and knows no message."""
