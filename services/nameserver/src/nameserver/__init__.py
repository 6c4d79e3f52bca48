"""Who is alive, and who owns which topic queues: soft state, rebuilt from registrations. Keeps no message."""
