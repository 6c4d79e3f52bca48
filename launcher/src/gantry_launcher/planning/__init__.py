"""Which processes run, with which arguments, on which ports. Starts nothing."""
