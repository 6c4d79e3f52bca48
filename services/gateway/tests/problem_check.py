"""Checks that every problem is complete."""

from __future__ import annotations


def check(answer, status, field=None, limit=None):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["requestId"] == answer.headers["x-request-id"]
    assert isinstance(problem["retryable"], bool)
    assert all(problem[name] for name in ("code", "title", "detail"))
    if field is not None:
        assert problem.get("field") == field, problem
    if limit is not None:
        assert limit in problem.get("limit", ""), problem
    return problem
