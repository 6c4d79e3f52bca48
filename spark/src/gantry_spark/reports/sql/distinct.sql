-- About how many different keys and producers a topic has (HyperLogLog, about 1 % off).
SELECT
  topic,
  hll_sketch_estimate(hll_union_agg(distinctKeys)) AS keys,
  hll_sketch_estimate(hll_union_agg(distinctProducers)) AS producers
FROM tops_by_hour
GROUP BY topic
ORDER BY keys DESC, topic
