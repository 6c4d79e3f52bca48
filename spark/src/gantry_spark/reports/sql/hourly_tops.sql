-- Roll-up: sketches of tags, keys and producers by hour and topic. They merge.
SELECT
  time, topic, CAST(sum(messages) AS BIGINT) AS messages, CAST(sum(withSeveralKeys) AS BIGINT) AS withSeveralKeys,
  CAST(sum(withTag) AS BIGINT) AS withTag, CAST(sum(withKey) AS BIGINT) AS withKey,
  approx_top_k_combine(topTags, :tracked) AS topTags, approx_top_k_combine(topKeys, :tracked) AS topKeys,
  approx_top_k_combine(topProducers, :tracked) AS topProducers,
  hll_union_agg(distinctKeys) AS distinctKeys, hll_union_agg(distinctProducers) AS distinctProducers
FROM tops_by_hour
GROUP BY time, topic
ORDER BY time, topic
