"""PullConsumer: messages by queue and offset. Keeps no offset."""
