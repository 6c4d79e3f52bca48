"""RocketMQ's own HA protocol: RocketMQ's slaves copy the log of this store over it. Nothing here is loaded while `ha_protocol` is off."""
