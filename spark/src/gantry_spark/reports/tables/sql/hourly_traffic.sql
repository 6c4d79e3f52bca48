-- Roll-up: traffic by the hour. A month is a merge of these (`--merge`), not another pass over the log.
SELECT
  date_trunc('HOUR', time) AS time, broker, topic, queueId, sizeBin,
  CAST(sum(messages) AS BIGINT) AS messages, CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(bodyBytes) AS BIGINT) AS bodyBytes,
  max(largestBody) AS largestBody, min(firstOffset) AS firstOffset, max(lastOffset) AS lastOffset,
  min(firstStored) AS firstStored, max(lastStored) AS lastStored
FROM traffic
GROUP BY 1, 2, 3, 4, 5
ORDER BY time, broker, topic, queueId, sizeBin
