"""Spark itself: the Java it runs on, our code for its processes, its words and folders, and the source under the name `gantry`. Never decides what is read or sent."""
