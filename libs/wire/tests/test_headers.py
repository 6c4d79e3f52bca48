"""The modules for one import export everything."""

from gantry_wire import (
    admin_bodies,
    admin_headers,
    bodies,
    body,
    client_bodies,
    cluster_bodies,
    command,
    encode,
    frame,
    frame_stream,
    header,
    headers,
    message_headers,
    nameserver_headers,
)


def own_names(module, kind=object):
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
        and isinstance(value, kind)
    }


def test_headers_exports_every_header():
    wanted = (
        own_names(admin_headers) | own_names(message_headers) | own_names(nameserver_headers) | {"Header"}
    )
    assert set(headers.__all__) == wanted
    assert headers.Header is header.Header


def test_bodies_exports_every_body():
    wanted = own_names(admin_bodies) | own_names(client_bodies) | own_names(cluster_bodies)
    assert set(bodies.__all__) == wanted | {"Body", "decode_body", "encode_body"}
    assert bodies.Body is body.Body


def test_frame_exports_the_functions_between_bytes_and_commands():
    assert set(frame.__all__) >= {name for name in own_names(encode) if name.startswith("encode_")}
    assert (frame.FrameDecoder, frame.Command) == (frame_stream.FrameDecoder, command.Command)
