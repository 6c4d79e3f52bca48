"""The gateway's gRPC side: RocketMQ's MessagingService. Nothing outside this package imports it or protobuf before gRPC is on."""
