-- The ten most frequent tags, keys and producers of each topic. Exact where none were left out; else `messages` is what is surely there,
-- `atMost` what may be there, and what could be as rare as those left out is not listed.
WITH counts AS (
  SELECT topic, what, item, sum(messages) AS messages FROM words GROUP BY ALL
), short AS (
  SELECT topic, what, messages AS missed FROM counts WHERE item IS NULL
), totals AS (
  SELECT topic, sum(messages) AS total FROM traffic GROUP BY topic
), placed AS (
  SELECT topic, what, item, messages, coalesce(missed, 0) AS missed, row_number() OVER (PARTITION BY topic, what ORDER BY messages DESC, item) AS place
  FROM counts LEFT JOIN short USING (topic, what)
  WHERE item IS NOT NULL AND messages > coalesce(missed, 0)
)
SELECT
  topic, what, item, CAST(messages AS BIGINT) AS messages, CAST(messages + missed AS BIGINT) AS atMost, messages / total AS share
FROM placed JOIN totals USING (topic)
WHERE place <= 10
ORDER BY what DESC, messages DESC, topic, item
