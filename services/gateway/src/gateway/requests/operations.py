"""The calls of the API. The signature of the function that answers a call describes it, once: its parameters, its body and its reply.

Reading a request, finding its call and the OpenAPI document all come from that signature. A parameter named `call` gets the `Call`,
`body` the decoded body, `query` a Struct of the whole query; every other one is a parameter of the path or the query, in camelCase,
without an underscore at its end.
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
from gateway.requests.repeated_names import refuse_twice

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
"""What a parameter of a path matches, by the kind that follows its name."""
_PLACE = re.compile(r"\{(?P<name>\w+)(?::(?P<kind>\w+))?\}")
_any_json = msgspec.json.Decoder()


class Details(NamedTuple):
    """What the OpenAPI document says about a call beside its signature."""

    name: str = ""
    """The operation's id; empty: made from the function's name, the path and the method."""
    summary: str = ""
    description: str = ""
    headers: Sequence[Document] = ()
    body: type[Struct] | None = None
    """The body's type, for a function that reads the body itself."""
    body_example: object = None
    is_body_needed: bool = True
    body_content: Mapping[str, Document] = {}
    """Other media types that the body may have."""
    reply: type[Struct] | None = None
    """The reply's type, for a function that returns a `Reply`."""
    reply_description: str = "Successful Response"
    reply_example: object = None
    reply_content: Mapping[str, Document] | None = None
    """Media types of a reply that is no JSON."""
    not_ready: str = ""
    """When the same reply comes with 503."""
    is_hidden: bool = False
    """Not in the document; any query is accepted."""
    reads_itself: bool = False
    """The function takes the call and the path's parameters as they are written, and reads the rest itself."""


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
        """With the kinds of its parameters; calls are counted under it."""
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
        self._query_names = {one.name for one in self.parameters if not one.is_in_path}
        self._takes_call = "call" in signature
        body = signature.get("body")
        self.body: type[Struct] | None = details.body
        self.is_body_needed = details.is_body_needed
        if body is not None:
            self.body = _without_none(body.annotation)
            self.is_body_needed = body.default is inspect.Parameter.empty
        self.may_be_null = body is not None and not self.is_body_needed
        """Whether `null` stands for no body."""
        self._takes_body = body is not None
        self._body: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self.body) if body else _any_json
        returned = inspect.signature(handler).return_annotation
        self.reply: type[Struct] | None = details.reply if returned is Reply else returned

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters of a path; None for the path of another call."""
        found = self._pattern.fullmatch(path)
        return None if found is None else found.groupdict()

    async def answer(self, call: Call, in_path: dict[str, str]) -> Reply:
        """Read a request and answer it; raise the problem of one that is refused."""
        if self.details.reads_itself:
            return cast("Reply", await self.handler(call, *in_path.values()))
        body = await call.body() if call.method in CHANGES else b""
        query: dict[str, str] = {}
        if not self.details.is_hidden:
            query = query_of(call.scope["query_string"], self._query_names)
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
        """Return the body; None where there is none, and none is needed."""
        if body:
            check_json_type(call.headers)
            read_json(
                _any_json, body
            )  # what is no JSON is said to be none, whatever else is wrong before that
            refuse_twice(body)
            is_null = self.may_be_null and body.strip() == b"null"
            return None if is_null else read_json(self._body, body)
        if self._takes_body and self.is_body_needed:
            raise invalid("body", "the field is missing")
        return None


class Operations:
    """Collects the calls of one subject: its methods decorate the functions that answer them."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self.all: list[Operation] = []

    def get(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a call that reads; `statuses` are the problems it may answer."""
        return self._adding("GET", path, statuses, details)

    def head(self, path: str) -> Callable[[H], H]:
        """Add a call that asks for the head of an answer only."""
        return self._adding("HEAD", path, (), _NONE)

    def put(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a call that creates or changes."""
        return self._adding("PUT", path, statuses, details)

    def post(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a call that does something."""
        return self._adding("POST", path, statuses, details)

    def patch(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a call that changes a part."""
        return self._adding("PATCH", path, statuses, details)

    def delete(self, path: str, *statuses: int, details: Details = _NONE) -> Callable[[H], H]:
        """Add a call that deletes."""
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
        """Return the operation and the parameters in the path; raise 404, or 405 with the methods that there are."""
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
        found[one.name] = Parameter(name, _without_none(one.annotation), default, name in in_path)
    return found


def _without_none(kind: Any) -> Any:
    """Return the type of what is given: text in a query or a path is never null."""
    kinds = [one for one in get_args(kind) if one is not NoneType]
    return kinds[0] if NoneType in get_args(kind) and len(kinds) == 1 else kind
