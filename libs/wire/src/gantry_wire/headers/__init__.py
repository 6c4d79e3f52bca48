"""Typed headers of RocketMQ's requests and replies, by who answers them."""
