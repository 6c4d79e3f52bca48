-- The ten most frequent tags, keys and producers (born host) of each topic. Counts are upper bounds where a topic has more different
-- ones in an hour than are tracked.
WITH totals AS (
  SELECT topic, CAST(sum(messages) AS BIGINT) AS total FROM tops_by_hour GROUP BY topic
), found AS (
  SELECT topic, 'tag' AS what, approx_top_k_estimate(approx_top_k_combine(topTags, :tracked), 10) AS items
  FROM tops_by_hour WHERE withTag > 0 GROUP BY topic
  UNION ALL
  SELECT topic, 'key', approx_top_k_estimate(approx_top_k_combine(topKeys, :tracked), 10)
  FROM (SELECT topic, topKeys FROM tops_by_hour WHERE withKey > withSeveralKeys UNION ALL SELECT topic, topKeys FROM several_keys)
  GROUP BY topic
  UNION ALL
  SELECT topic, 'producer', approx_top_k_estimate(approx_top_k_combine(topProducers, :tracked), 10)
  FROM tops_by_hour GROUP BY topic
)
SELECT topic, what, item.item AS item, item.count AS messages, item.count / total AS share
FROM (SELECT topic, what, explode(items) AS item FROM found) JOIN totals USING (topic)
ORDER BY what DESC, messages DESC, topic, item
