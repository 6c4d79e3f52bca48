"""The remoting protocol in one import: splits a stream into frames, decodes frames and encodes commands."""

from gantry_wire.command import Command, decode_command
from gantry_wire.encode import (
    encode_pull_reply_head,
    encode_request,
    encode_response,
    encode_send_replies,
    encode_send_reply,
)
from gantry_wire.frame_stream import BINARY, JSON, FrameDecoder, RawFrame

__all__ = [
    "BINARY",
    "JSON",
    "Command",
    "FrameDecoder",
    "RawFrame",
    "decode_command",
    "encode_pull_reply_head",
    "encode_request",
    "encode_response",
    "encode_send_replies",
    "encode_send_reply",
]
