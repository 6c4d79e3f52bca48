"""Configuration in RocketMQ's formats: broker.conf, changes at run time, config/*.json, delay levels.

Never applies a change by itself.
"""
