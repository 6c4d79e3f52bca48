"""Requests with Gantry's own codes, from 9001: header and body of each together."""
