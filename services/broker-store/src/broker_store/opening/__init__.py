"""Opens a store directory, rebuilds what was lost, and takes the checkpoints that bound what a start reads. Accepts no send."""
