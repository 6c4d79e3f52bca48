-- How long from the producer's clock to the store's, in the same pass. Only messages that were stored as they were sent: a delayed, retried,
-- committed or redriven one keeps the time its first copy was made, so its age is no latency ('later'). Below 128 ms a bin is one millisecond,
-- above it at most 1/64 wide.
SELECT time, topic, what, bin AS ms, messages, least AS leastMs, most AS mostMs
FROM counted
WHERE part = 'latency'
