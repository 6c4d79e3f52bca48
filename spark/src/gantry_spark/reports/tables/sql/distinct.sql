-- How many different keys and producers a topic has: counted as long as they are few, else about, from how closely the least of their hashes lie
-- (3 % off in one of three cases).
WITH ranked AS (
  SELECT topic, what, hash, row_number() OVER (PARTITION BY topic, what ORDER BY hash) AS place
  FROM (SELECT DISTINCT topic, what, hash FROM hashes WHERE what <> 'tag')
), guessed AS (
  SELECT topic, what,
    CAST(CASE WHEN count(*) < :tracked THEN count(*) ELSE round((:tracked - 1) * (9223372036854775807D / max(hash))) END AS BIGINT) AS many
  FROM ranked WHERE place <= :tracked
  GROUP BY topic, what
)
SELECT
  topic, coalesce(max(many) FILTER (WHERE what = 'key'), 0) AS keys, coalesce(max(many) FILTER (WHERE what = 'producer'), 0) AS producers
FROM guessed
GROUP BY topic
ORDER BY keys DESC, topic
