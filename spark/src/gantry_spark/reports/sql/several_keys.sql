-- The keys of messages that have several, each for itself, by hour and topic.
SELECT time, topic, approx_top_k_accumulate(key, :tracked) AS topKeys
FROM (
  SELECT date_trunc('HOUR', storeTimestamp) AS time, topic, explode(split(keys, ' +')) AS key
  FROM messages
  WHERE instr(keys, ' ') > 0 AND kind_of(topic) = 'user'
)
WHERE key <> ''
GROUP BY time, topic
