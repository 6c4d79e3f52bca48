-- How evenly the messages of a topic lie over its queues. Skew: the fullest queue over the mean of all queues that the topic has, those that
-- were never written among them: they stand in the configuration only.
WITH counted AS (
  SELECT broker, topic, queueId, sum(messages) AS messages, sum(bytes) AS bytes FROM traffic GROUP BY ALL
), known AS (
  SELECT broker, topic, queueId FROM bounds UNION SELECT broker, topic, queueId FROM configured
), every AS (
  SELECT broker, topic, queueId, coalesce(messages, 0) AS messages, coalesce(bytes, 0) AS bytes
  FROM counted FULL JOIN known USING (broker, topic, queueId)
)
SELECT
  topic, count(*) AS queues, count_if(messages = 0) AS emptyQueues,
  CAST(sum(messages) AS BIGINT) AS messages,
  round(avg(messages), 1) AS meanMessages,
  CAST(max(messages) AS BIGINT) AS fullestMessages,
  max_by(concat(broker, ':', queueId), messages) AS fullestQueue,
  CAST(max(bytes) AS BIGINT) AS fullestBytes,
  round(max(messages) / avg(messages), 2) AS skew
FROM every
WHERE kind_of(topic) <> 'system'
GROUP BY topic
HAVING sum(messages) > 0
ORDER BY skew DESC, messages DESC, topic
