"""Speed of RocketMQ's gRPC protocol."""
