"""Offset resets: sets where a group resumes by time, offset, earliest or latest, with or without clients online.

Never touches a message.
"""
