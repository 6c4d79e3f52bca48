"""What connected peers may make a process hold, and the log lines of refusals."""
