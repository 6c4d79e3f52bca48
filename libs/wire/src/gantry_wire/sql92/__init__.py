"""SQL92 filters: compiles an expression once, then evaluates it on the property bytes of each message.

Grammar, conversions and three-valued logic match RocketMQ 5.3.3. One difference: text after a complete expression is an error
here; RocketMQ ignores it silently. Knows no queues and no records.
"""
