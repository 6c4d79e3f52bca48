"""The command line of an export and the words for the person who typed it. Reads no log and writes no table."""
