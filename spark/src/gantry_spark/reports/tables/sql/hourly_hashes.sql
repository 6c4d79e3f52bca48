-- Roll-up: the least hashes by hour and topic. They merge: the least of all are among the least of each.
SELECT time, topic, what, hash
FROM (
  SELECT time, topic, what, hash, row_number() OVER (PARTITION BY time, topic, what ORDER BY hash) AS place
  FROM (SELECT DISTINCT time, topic, what, hash FROM hashes)
)
WHERE place <= :tracked
ORDER BY time, topic, what, hash
