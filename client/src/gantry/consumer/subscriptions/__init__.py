"""What a group wants of each topic: read from what a user says, checked, told to brokers. Never pulls."""
