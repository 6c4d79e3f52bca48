"""The refusal of a request whose sender is not proven."""


class AuthenticationRefused(Exception):
    """The sender of a request is not proven. Answer `remark`: code 16 over remoting, status 40100 over gRPC."""

    def __init__(self, remark: str) -> None:
        super().__init__(remark)
        self.remark = remark
