-- Dead letters by group, the topic they came from and the reason; the newest one as a sample.
SELECT
  substr(topic, 6) AS group, coalesce(split(origin, ':')[0], retryTopic) AS originTopic, reason,
  count(*) AS messages, max(CAST(attempts AS INT)) AS mostAttempts, max(stored) AS newest,
  max_by(keys, stored) AS sampleKeys, max_by(uniqueKey, stored) AS sampleId,
  max_by(concat(broker, ':', queueId, ':', queueOffset), stored) AS samplePlace
FROM items WHERE kind_of(topic) = 'dead letters' AND isInRange
GROUP BY ALL ORDER BY messages DESC, group, originTopic
