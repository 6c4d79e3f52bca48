-- Delivered less due, milliseconds, by delay level, for instants, and of all.
SELECT
  coalesce(kind, 'all') AS kind, count(*) AS asked,
  count_if(state = 'delivered') AS delivered, count_if(state = 'waiting') AS waiting,
  count_if(state = 'cancelled or moved') AS cancelledOrMoved, count_if(state = 'overdue') AS overdue,
  count_if(lateMs < 0) AS early,
  percentile(lateMs, 0.5) AS p50Ms, percentile(lateMs, 0.99) AS p99Ms, percentile(lateMs, 0.999) AS p999Ms,
  max(lateMs) AS maxMs, count_if(lateMs > 1000) AS lateOver1s
FROM delay_items
GROUP BY GROUPING SETS ((kind, place), ())
HAVING count(*) > 0
ORDER BY place NULLS LAST
