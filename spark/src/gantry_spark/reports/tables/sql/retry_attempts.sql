-- How many messages each group got for the n-th time.
SELECT substr(topic, 8) AS group, reconsumeTimes AS attempt, count(*) AS messages
FROM items WHERE kind_of(topic) = 'retry' AND isInRange
GROUP BY ALL ORDER BY group, attempt
