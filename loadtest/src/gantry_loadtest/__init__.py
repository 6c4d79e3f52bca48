"""Load profiles: each loads a system over HTTP, asks one question of it and prints the answer.

The pure parts (schedule, shapes, history, findings, verdict, report) import no socket and no Locust.
"""
