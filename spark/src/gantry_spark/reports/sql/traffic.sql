-- Every message counted once, by step of time, queue and size of its body. One pass over the log; other tables are made from it.
SELECT
  timestamp_seconds(unix_seconds(storeTimestamp) DIV :step * :step) AS time,
  brokerName AS broker, topic, queueId,
  CASE WHEN bodySize = 0 THEN -1 ELSE length(bin(bodySize)) - 1 END AS sizeBin,
  count(*) AS messages,
  sum(CAST(storeSize AS BIGINT)) AS bytes,
  sum(CAST(bodySize AS BIGINT)) AS bodyBytes,
  max(bodySize) AS largestBody,
  min(queueOffset) AS firstOffset, max(queueOffset) AS lastOffset,
  min(storeTimestamp) AS firstStored, max(storeTimestamp) AS lastStored
FROM messages
GROUP BY ALL
