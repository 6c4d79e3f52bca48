"""Topics, groups and settings as records of GANTRY_SYS_CONFIG, and their files as exports of what the log says.

Never decides what a table may hold.
"""
