"""The launcher behind `./gantry`: installs, starts, watches and stops a whole system. Standard library only.

It knows how processes are started and asked for health, and nothing of what they do; it imports no other package.
"""
