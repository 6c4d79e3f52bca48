"""The calls of the API. The signature of the handler describes a call in one place: its parameters, its body and its reply.

Decoding, routing and the OpenAPI document all use that signature. A parameter named `call` gets the `Call`, `body` the decoded body,
`query` a Struct of the whole query; every other one is a parameter of the path or the query, in camelCase, without a trailing
underscore.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeVar, cast, get_args

import msgspec
from msgspec import Struct

from gateway.http.call import Call, Reply, json_reply
from gateway.http.problems import Problem, invalid
from gateway.requests.checks import query_of
from gateway.requests.json_bodies import read_json, read_parameters
from gateway.requests.media_types import check_json_type
from gateway.requests.repeated_names import refuse_repeated_names

Handler = Callable[..., Awaitable[object]]
H = TypeVar("H", bound=Handler)
Document = dict[str, Any]

CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PARTS = {
    "": "[^/]+",
    "plain": "[^/]+(?<!:pause)(?<!:resume)",  # other methods on /groups/g:pause are 405, not a group of that name
    "id": "[^/:]+",  # a verb may follow
    "path": ".*",
}
"""The pattern of a path parameter, by its kind."""
_PLACE = re.compile(r"\{(?P<name>\w+)(?::(?P<kind>\w+))?\}")
_any_json = msgspec.json.Decoder()


class Details(NamedTuple):
    """Details of a call in the OpenAPI document that its signature does not have."""

    name: str = ""
    """The operation's id; empty: derived from the function's name, the path and the method."""
    summary: str = ""
    description: str = ""
    headers: Sequence[Document] = ()
    body: type[Struct] | None = None
    """The body's type, for a handler that decodes the body itself."""
    body_example: object = None
    is_body_needed: bool = True
    body_content: Mapping[str, Document] = {}
    """Other media types of the body."""
    reply: type[Struct] | None = None
    """The reply's type, for a handler that returns a `Reply`."""
    reply_description: str = "Successful Response"
    reply_example: object = None
    reply_content: Mapping[str, Document] | None = None
    """Media types of a reply that is not JSON."""
    not_ready: str = ""
    """Description of a 503 with the same reply."""
    is_hidden: bool = False
    """Not in the document; any query is accepted."""
    reads_itself: bool = False
    """The handler takes the call and the raw path parameters, and decodes the rest itself."""


_NONE = Details()


class Parameter(NamedTuple):
    """One parameter of a path or a query."""

    name: str
    kind: Any
    default: object
    is_in_path: bool


class Operation:
    """One call of the API."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        tag: str,
        statuses: Sequence[int],
        details: Details,
    ) -> None:
        self.method, self.tag, self.statuses, self.details = method, tag, statuses, details
        self.path = path
        """The path with the kinds of its parameters; metrics count calls under it."""
        self.shown_path = _PLACE.sub(r"{\g<name>}", path)
        self.handler = handler
        self._pattern = _compiled(path)
        signature = inspect.signature(handler).parameters
        own = _parameters(signature.values(), set(self._pattern.groupindex))
        self._arguments = msgspec.defstruct(
            "Parameters",
            [
                (name, one.kind, msgspec.field(default=one.default, name=one.name))
                for name, one in own.items()
            ],
            kw_only=True,
        )
        query = signature.get("query")
        self._query: type[Struct] | None = None if query is None else query.annotation
        fields = () if self._query is None else msgspec.structs.fields(self._query)
        self.parameters = [
            *own.values(),
            *(Parameter(one.encode_name, one.type, one.default, is_in_path=False) for one in fields),
        ]
        self.query_names = frozenset(one.name for one in self.parameters if not one.is_in_path)
        """The parameters that a query may have."""
        self._takes_call = "call" in signature
        body = signature.get("body")
        self.body: type[Struct] | None = details.body
        self.is_body_needed = details.is_body_needed
        if body is not None:
            self.body = _not_null(body.annotation)
            self.is_body_needed = body.default is inspect.Parameter.empty
        self.may_be_null = body is not None and not self.is_body_needed
        """Whether `null` means that there is no body."""
        self._takes_body = body is not None
        self._body: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self.body) if body else _any_json
        returned = inspect.signature(handler).return_annotation
        self.reply: type[Struct] | None = details.reply if returned is Reply else returned

    @property
    def route(self) -> tuple[str, str]:
        """Method and path template."""
        return self.method, self.shown_path

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters of a path; None for the path of another call."""
        found = self._pattern.fullmatch(path)
        return None if found is None else found.groupdict()

    async def answer(self, call: Call, in_path: dict[str, str]) -> Reply:
        """Decode a request and answer it; raise the problem of an invalid one."""
        if self.details.reads_itself:
            return cast("Reply", await self.handler(call, *in_path.values()))
        body = await call.body() if call.method in CHANGES else b""
        query: dict[str, str] = {}
        if not self.details.is_hidden:
            query = query_of(call.scope["query_string"], self.query_names)
        if self._query is None:
            arguments = msgspec.structs.asdict(read_parameters(self._arguments, in_path | query))
        else:
            arguments = msgspec.structs.asdict(read_parameters(self._arguments, in_path))
            arguments["query"] = read_parameters(self._query, query)
        wanted = self._read_body(call, body)
        if self._takes_body:
            arguments["body"] = wanted
        if self._takes_call:
            arguments["call"] = call
        reply = await self.handler(**arguments)
        return reply if isinstance(reply, Reply) else json_reply(reply)

    def _read_body(self, call: Call, body: bytes) -> object:
        """Return the body; None if there is none and none is required."""
        if body:
            check_json_type(call.headers)
            read_json(_any_json, body)  # a body that is not JSON is reported as such, before any other error
            refuse_repeated_names(body)
            is_null = self.may_be_null and body.strip() == b"null"
            return None if is_null else read_json(self._body, body)
        if self._takes_body and self.is_body_needed:
            raise invalid("body", "the field is missing")
        return None


class Operations:
    """Collects the calls of one subject: its methods decorate the handlers."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self.all: list[Operation] = []

    def get(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a GET call; `statuses` are the problems it may return."""
        return self._adding("GET", path, statuses, details)

    def head(self, path: str) -> Callable[[H], H]:
        """Add a HEAD call."""
        return self._adding("HEAD", path, (), _NONE)

    def put(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a PUT call."""
        return self._adding("PUT", path, statuses, details)

    def post(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a POST call."""
        return self._adding("POST", path, statuses, details)

    def patch(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a PATCH call."""
        return self._adding("PATCH", path, statuses, details)

    def delete(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a DELETE call."""
        return self._adding("DELETE", path, statuses, details)

    def _adding(self, method: str, path: str, statuses: Sequence[int], details: Details) -> Callable[[H], H]:
        def add(handler: H) -> H:
            self.all.append(Operation(method, path, handler, self._tag, statuses, details))
            return handler

        return add


class Router:
    """Finds the operation of a request by its path and method."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = list(operations)

    def find(self, call: Call) -> tuple[Operation, dict[str, str]]:
        """Return the operation and its path parameters; raise 404, or 405 with the allowed methods."""
        methods: set[str] = set()
        for operation in self.operations:
            in_path = operation.match(call.path)
            if in_path is None:
                continue
            if not methods or operation.method == call.method:
                call.scope["route_name"] = operation.path
            if operation.method == call.method:
                return operation, in_path
            methods.add(operation.method)
        if not methods:
            raise Problem(404, "NOT_FOUND", "there is no such resource; see /docs")
        problem = Problem(405, "METHOD_NOT_ALLOWED", "the resource does not have this method; see Allow")
        problem.headers = [(b"allow", ", ".join(sorted(methods)).encode())]
        raise problem


def _compiled(path: str) -> re.Pattern[str]:
    pattern, end = "", 0
    for place in _PLACE.finditer(path):
        pattern += f"{re.escape(path[end : place.start()])}(?P<{place['name']}>{_PARTS[place['kind'] or '']})"
        end = place.end()
    return re.compile(pattern + re.escape(path[end:]), re.DOTALL)


def _parameters(signature: Iterable[inspect.Parameter], in_path: set[str]) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for one in signature:
        if one.name in {"call", "body", "query"}:
            continue
        name = re.sub(r"_(\w)", lambda match: match[1].upper(), one.name.rstrip("_"))
        default = msgspec.NODEFAULT if one.default is inspect.Parameter.empty else one.default
        found[one.name] = Parameter(name, _not_null(one.annotation), default, name in in_path)
    return found


def _not_null(kind: Any) -> Any:
    """Return the type of a given value: text in a query or a path is never null."""
    kinds = [one for one in get_args(kind) if one is not NoneType]
    return kinds[0] if NoneType in get_args(kind) and len(kinds) == 1 else kind
