"""Integration with Spark: the Java it runs on, the shipped code, its output and folders, and the source named `gantry`. Decides nothing about what is read or sent."""
