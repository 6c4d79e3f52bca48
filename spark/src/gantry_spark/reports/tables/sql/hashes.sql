-- The least hashes of tags, keys and producers by hour and topic, in the same pass: they tell about how many different ones there are.
SELECT time, topic, what, bin AS hash
FROM counted
WHERE part = 'hash'
