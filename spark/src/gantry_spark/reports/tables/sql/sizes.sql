-- Sizes of bodies in powers of two, users' topics. Bin n: at least 2^n bytes and less than 2^(n+1).
SELECT
  topic, sizeBin,
  CASE WHEN sizeBin < 0 THEN 0 ELSE shiftleft(1L, sizeBin) END AS fromBytes,
  CASE WHEN sizeBin < 0 THEN 1 ELSE shiftleft(2L, sizeBin) END AS belowBytes,
  CAST(sum(messages) AS BIGINT) AS messages,
  CAST(sum(bodyBytes) AS BIGINT) AS bodyBytes
FROM traffic
WHERE kind_of(topic) <> 'system'
GROUP BY topic, sizeBin
ORDER BY topic, sizeBin
