"""The heartbeat of a client that consumes one topic and produces, as the official client encodes it."""

HEARTBEAT = (
    b'{"clientID":"c1","consumerDataSet":[{"groupName":"readers","consumeType":"CONSUME_PASSIVELY","messageModel":'
    b'"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"topic":"orders","subString":'
    b'"a","subVersion":3}]}],"producerDataSet":[{"groupName":"p"}]}'
)
