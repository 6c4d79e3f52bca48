"""Decides what becomes of a request that access control refuses. It is the one place that knows the mode of a process.

In the mode `enforce` the request is refused. In the mode `permissive`, the step of a running system between off and on, it is noted as permitted
and handled as if access control were off. What is about users, policies and tokens themselves is refused in both modes.
What access control allows, validators may refuse (validators.py): such a refusal counts as any other.
"""

from __future__ import annotations

from gantry_guard.audit import Asked, Audit
from gantry_guard.validators import Validators


class Refusals:
    """The refusals of one process."""

    def __init__(self, audit: Audit, validators: Validators | None, *, is_permissive: bool) -> None:
        """Take the mode of the process, and its validators: None where none is configured."""
        self.audit, self.validators, self.is_permissive = audit, validators, is_permissive

    def permits(self, asked: Asked, reason: str, rule: str = "", *, is_about_access: bool) -> bool:
        """Note in the audit log that a request is refused, or permitted nevertheless. Return whether it is permitted.

        `reason`: one word; `rule`: the rule that decided, if one did. `is_about_access`: it reads or changes users, policies or tokens.
        """
        if self.is_permissive and not is_about_access:
            self.audit.permitted(asked, reason, rule)
            return True
        self.audit.refused(asked, reason, rule)
        return False
