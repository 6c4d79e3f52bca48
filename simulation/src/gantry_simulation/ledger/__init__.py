"""What all clients of a run know together, by subject. It lives outside of the processes, so that no fault touches it."""
