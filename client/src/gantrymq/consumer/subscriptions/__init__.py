"""A group's subscriptions: parsed, validated, sent to brokers. Never pulls."""
