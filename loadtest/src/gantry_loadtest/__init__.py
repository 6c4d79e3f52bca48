"""Load profiles: each loads a system over HTTP, asks one question of it and prints the answer.

The pure parts (schedule, shapes, history, figures, verdict, report) know no socket and no Locust.
"""
