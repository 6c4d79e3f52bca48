"""RocketMQ's gRPC protocol, apache.rocketmq.v2: messages and service, declared here and built by the first import.

Importing any module of this package builds all its classes, so every name outside of it is a class of the protobuf runtime.
"""

from gateway.grpc.proto.service import METHODS, PACKAGE, SERVICE, Method, file_descriptors

__all__ = ["METHODS", "PACKAGE", "SERVICE", "Method", "file_descriptors"]
