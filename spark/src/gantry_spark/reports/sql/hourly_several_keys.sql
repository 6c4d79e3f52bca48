-- Roll-up: sketches of the keys of messages that have several, by hour and topic.
SELECT time, topic, approx_top_k_combine(topKeys, :tracked) AS topKeys
FROM several_keys
GROUP BY time, topic
ORDER BY time, topic
