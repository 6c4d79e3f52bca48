"""Calls that come with the next version: 501 NOT_YET in words, and no entry in the OpenAPI."""

from fastapi import APIRouter

from gateway.problems import not_yet

_CALLS = (
    ("/v1/messages/{id}/timeline", "GET", "timelines of messages"),
)


def next_version_routes() -> APIRouter:
    """Return the routes."""
    router = APIRouter(include_in_schema=False)
    for path, method, words in _CALLS:
        _add(router, path, method, words)
    return router


def _add(router: APIRouter, path: str, method: str, words: str) -> None:
    async def refuse() -> None:
        raise not_yet(f"comes with the next version: {words}")

    router.add_api_route(path, refuse, methods=[method])
