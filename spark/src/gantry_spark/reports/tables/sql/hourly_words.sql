-- Roll-up: frequent tags, keys and producers by hour and topic. Counts add up; what is left out here is added to by how much counts may be short.
WITH counts AS (
  SELECT time, topic, what, item, sum(messages) AS messages FROM words GROUP BY ALL
), placed AS (
  SELECT *, row_number() OVER (PARTITION BY time, topic, what, item IS NULL ORDER BY messages DESC, item) AS place FROM counts
)
SELECT time, topic, what, item, CAST(messages AS BIGINT) AS messages
FROM placed WHERE item IS NOT NULL AND place <= :tracked
UNION ALL
SELECT time, topic, what, CAST(NULL AS STRING) AS item, CAST(sum(messages) AS BIGINT) AS messages
FROM placed WHERE item IS NULL OR place = :tracked + 1
GROUP BY time, topic, what
ORDER BY time, topic, what, messages DESC, item
