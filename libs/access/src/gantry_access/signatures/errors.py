"""Refusals of requests whose sender is not proven, with RocketMQ's texts."""

NO_USER = "username cannot be null."
BAD_SIGNATURE = "check signature failed."
NO_DATE = "datetime is null."
BAD_HEADER = "authentication header is incorrect."
BAD_KEY_VALUE = "authentication keyValues length is incorrect, actual length={}."
BAD_CONTEXT = "create authentication context error."


class AuthenticationRefused(Exception):
    """The sender of a request is not proven. Answer `remark`: code 16 over remoting, status 40100 over gRPC."""

    def __init__(self, remark: str) -> None:
        super().__init__(remark)
        self.remark = remark
