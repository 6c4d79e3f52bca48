-- How long from the producer's clock to the store's. Only messages that were stored as they were sent: a delayed, retried, committed or
-- redriven one keeps the time its first copy was made, so its age is no latency. Below 128 ms a bin is one millisecond, above it at most 1/64 wide.
WITH measured AS (
  SELECT
    timestamp_seconds(unix_seconds(storeTimestamp) DIV :step * :step) AS time, topic,
    unix_millis(storeTimestamp) - unix_millis(bornTimestamp) AS ms,
    reconsumeTimes > 0 OR sysFlag & 12 = 8 OR settled IS NOT NULL OR realTopic IS NOT NULL AS isLater
  FROM messages
  WHERE kind_of(topic) <> 'system'
)
SELECT
  time, topic,
  CASE WHEN isLater THEN 'later' WHEN ms < 0 THEN 'ahead' ELSE 'measured' END AS what,
  CASE
    WHEN isLater OR ms < 0 THEN NULL
    WHEN ms < 128 THEN ms
    ELSE shiftleft(shiftright(ms, length(bin(ms)) - 7), length(bin(ms)) - 7)
  END AS ms,
  count(*) AS messages,
  min(ms) AS leastMs, max(ms) AS mostMs
FROM measured
GROUP BY ALL
