-- Traffic of the topics that belong to the system: what waits, marks, samples, traces.
SELECT
  topic, kind_of(topic) AS kind,
  CAST(sum(messages) AS BIGINT) AS messages,
  CAST(sum(bytes) AS BIGINT) AS bytes,
  CAST(sum(bodyBytes) AS BIGINT) AS bodyBytes,
  sum(messages) / sum(sum(messages)) OVER () AS share,
  round(sum(bodyBytes) / sum(messages), 1) AS meanBody,
  max(largestBody) AS largestBody,
  count(DISTINCT broker, queueId) AS queues,
  min(firstStored) AS firstStored, max(lastStored) AS lastStored
FROM traffic
WHERE kind_of(topic) = 'system'
GROUP BY topic
ORDER BY messages DESC, topic
