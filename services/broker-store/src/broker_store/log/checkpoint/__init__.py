"""What a run leaves for the next one beside the log: checkpoint file, abort file, log id and our note."""
