"""What each request requires: by remoting code, HTTP route and gRPC method. A request without a row is refused."""

from gantry_access.rights.asked import Asked
from gantry_access.rights.document import rights_tables
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.grpc_table import METHODS, GrpcAsked, requirements_of_method
from gantry_access.rights.http_table import GATEWAY, OWN_PORTS, requirements_of_route
from gantry_access.rights.request_table import REQUESTS, requirements_of_request
from gantry_access.rights.requirements import AnyUser, Inner, OfRecord, Open, Requirement

__all__ = [
    "GATEWAY",
    "METHODS",
    "OWN_PORTS",
    "REQUESTS",
    "AnyUser",
    "Asked",
    "GrpcAsked",
    "Inner",
    "OfRecord",
    "Open",
    "Requirement",
    "RightsRefused",
    "requirements_of_method",
    "requirements_of_request",
    "requirements_of_route",
    "rights_tables",
]
