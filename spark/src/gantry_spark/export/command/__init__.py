"""The command line of an export and its messages to the user. Reads no log and writes no table."""
