-- Sketches by hour and topic: the most frequent tags, keys and producers (approx_top_k), and how many different ones (HyperLogLog).
-- Keys of messages that have several are counted by another pass, each key for itself.
SELECT
  date_trunc('HOUR', storeTimestamp) AS time, topic, count(*) AS messages,
  count_if(instr(keys, ' ') > 0) AS withSeveralKeys,
  count(tags) AS withTag, count(keys) AS withKey,
  approx_top_k_accumulate(tags, :tracked) FILTER (WHERE tags IS NOT NULL) AS topTags,
  approx_top_k_accumulate(keys, :tracked) FILTER (WHERE instr(keys, ' ') = 0) AS topKeys,
  approx_top_k_accumulate(regexp_replace(bornHost, ':[0-9]+$', ''), :tracked) FILTER (WHERE bornHost IS NOT NULL) AS topProducers,
  hll_sketch_agg(keys) AS distinctKeys,
  hll_sketch_agg(regexp_replace(bornHost, ':[0-9]+$', '')) AS distinctProducers
FROM messages
WHERE kind_of(topic) = 'user'
GROUP BY ALL
