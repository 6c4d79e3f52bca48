"""Configuration in RocketMQ's forms: broker.conf, changes at run time, config/*.json, delay levels."""
