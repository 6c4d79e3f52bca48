-- The messages found in the log beside what the queues count (maximum offset less minimum offset), by topic. `removed` are those below the
-- beginning of their queue, or of a queue that is gone: a topic that was deleted leaves its messages in the log.
WITH counted AS (
  SELECT broker, topic, queueId, sum(messages) AS found, min(firstOffset) AS firstOffset FROM traffic GROUP BY ALL
), compared AS (
  SELECT
    topic, coalesce(found, 0) AS found, coalesce(maxOffset - minOffset, 0) AS wanted,
    CASE WHEN found IS NULL THEN 0 WHEN minOffset IS NULL THEN found
      ELSE greatest(least(found - (maxOffset - minOffset), minOffset - firstOffset), 0) END AS removed
  FROM counted FULL JOIN bounds USING (broker, topic, queueId)
)
SELECT
  topic, kind_of(topic) AS kind,
  CAST(sum(found) AS BIGINT) AS inLog, CAST(sum(wanted) AS BIGINT) AS inQueues, CAST(sum(removed) AS BIGINT) AS removed,
  CAST(sum(found - removed - wanted) AS BIGINT) AS difference,
  count_if(found - removed <> wanted) AS queuesThatDiffer
FROM compared
GROUP BY topic
HAVING inLog > 0 OR inQueues > 0
ORDER BY abs(difference) DESC, topic
