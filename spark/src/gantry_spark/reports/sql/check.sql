-- The messages found in the log beside what the queues count (maximum offset less minimum offset), by topic.
WITH counted AS (
  SELECT broker, topic, queueId, sum(messages) AS found FROM traffic GROUP BY ALL
)
SELECT
  topic, kind_of(topic) AS kind,
  CAST(sum(coalesce(found, 0)) AS BIGINT) AS inLog,
  CAST(sum(coalesce(maxOffset - minOffset, 0)) AS BIGINT) AS inQueues,
  CAST(sum(coalesce(found, 0) - coalesce(maxOffset - minOffset, 0)) AS BIGINT) AS difference,
  count_if(coalesce(found, 0) <> coalesce(maxOffset - minOffset, 0)) AS queuesThatDiffer
FROM counted FULL JOIN bounds USING (broker, topic, queueId)
GROUP BY topic
HAVING inLog > 0 OR inQueues > 0
ORDER BY abs(difference) DESC, topic
