-- What each group gave back: copies in its retry topic, those of a first failure, and what it gave up.
WITH retried AS (
  SELECT substr(topic, 8) AS group, count(*) AS retries, count_if(reconsumeTimes <= 1) AS firstRetries, max(reconsumeTimes) AS mostAttempts
  FROM items WHERE kind_of(topic) = 'retry' AND isInRange GROUP BY ALL
), dead AS (
  SELECT substr(topic, 6) AS group, count(*) AS deadLetters
  FROM items WHERE kind_of(topic) = 'dead letters' AND isInRange GROUP BY ALL
)
SELECT
  coalesce(retried.group, dead.group) AS group,
  coalesce(retries, 0) AS retries, coalesce(firstRetries, 0) AS firstRetries,
  coalesce(mostAttempts, 0) AS mostAttempts, coalesce(deadLetters, 0) AS deadLetters
FROM retried FULL JOIN dead ON retried.group = dead.group
ORDER BY deadLetters DESC, retries DESC, group
