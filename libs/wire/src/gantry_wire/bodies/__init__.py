"""Bodies of RocketMQ's requests and replies, by what they describe, and the JSON they are written in."""
