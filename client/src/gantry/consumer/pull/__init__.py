"""PullConsumer: messages by queue and offset. Never keeps an offset."""
