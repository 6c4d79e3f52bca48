-- How many of the delivered ones were late by at most so many milliseconds, in powers of two.
SELECT
  kind, bound AS atMostMs, count_if(lateMs <= bound) / count(*) AS share
FROM delay_items JOIN (SELECT explode(array(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)) AS bound)
WHERE state = 'delivered'
GROUP BY kind, place, bound
ORDER BY place, bound
