"""The settings of a process: how they are read and checked, and those several services have."""
