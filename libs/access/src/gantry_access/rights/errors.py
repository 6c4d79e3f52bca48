"""The refusal before any policy is evaluated."""


class RightsRefused(Exception):
    """A request that no right can allow: a name is missing or not legal, names contradict each other, or its code has no row.

    Answer `remark`: code 16 over remoting, 403 over HTTP, status 40100 over gRPC.
    """

    def __init__(self, remark: str) -> None:
        super().__init__(remark)
        self.remark = remark
