-- Tags, keys and producers (born host) by hour and topic, in the same pass; several keys of a message each for itself. All are counted as long as
-- an hour of a topic has few different ones; then only frequent ones are kept, and the row without an item says by how much counts may be short.
SELECT time, topic, what, item, messages
FROM counted
WHERE part = 'word'
