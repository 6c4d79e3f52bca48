"""Requests 3006 to 3010: RocketMQ's policies of users."""

from functools import partial

from broker_store.access.administration import AccessAdministration
from broker_store.access.asker import AskerOf
from broker_store.access.users_handler import answered
from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_access.errors import MalformedSubject
from gantry_access.formats.acl_info import read_acl, read_policy_type, read_resource, write_acl, write_acls
from gantry_access.formats.refused_change import no_permission
from gantry_access.model.policies import PolicyEntry, SubjectPolicies
from gantry_access.model.users import Subject
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.access import AclFilterHeader, DeleteAclHeader, SubjectHeader


class PolicyHandlers:
    """Handles requests about policies."""

    def __init__(
        self, administration: AccessAdministration, deferred: DeferredReplies, asker_of: AskerOf
    ) -> None:
        self._administration = administration
        self._deferred = deferred
        self._asker_of = asker_of

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.AUTH_CREATE_ACL: ("adminBroker", self.put),
            RequestCode.AUTH_UPDATE_ACL: ("adminBroker", self.put),
            RequestCode.AUTH_DELETE_ACL: ("adminBroker", self.delete),
            RequestCode.AUTH_GET_ACL: ("adminBroker", self.get),
            RequestCode.AUTH_LIST_ACL: ("adminBroker", self.list),
        }

    def put(self, peer: Peer, command: Command) -> None:
        """Handle 3006 and 3007: the entries of the named resources are these from now on."""
        policies = read_acl(command.body, command.read(SubjectHeader).subject)
        put = partial(self._administration.put_policies, self._asker_of(peer, command), policies)
        self._deferred.answer(peer, command, answered(command, put))

    def delete(self, peer: Peer, command: Command) -> None:
        """Handle 3008: delete the entries of one resource, or all policies of the subject."""
        header = command.read(DeleteAclHeader)
        subject = _subject(header)
        kind = read_policy_type(header.policy_type)
        resource = read_resource(header.resource) if header.resource and header.resource.strip() else None
        delete = partial(
            self._administration.delete_policies, self._asker_of(peer, command), subject, kind, resource
        )
        self._deferred.answer(peer, command, answered(command, delete))

    def get(self, _peer: Peer, command: Command) -> bytes:
        """Handle 3009: the policies of one subject; no body if it has none."""
        account = self._administration.table.state.find(_subject(command.read(SubjectHeader)).name)
        if account is None or account.user.is_inner:
            raise no_permission("The subject is not exist.")
        body = write_acl(account.policies) if _has_entries(account.policies) else b""
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)

    def list(self, _peer: Peer, command: Command) -> bytes:
        """Handle 3010: the policies whose subject and resources contain the filters; no body if there are none."""
        header = command.read(AclFilterHeader)
        of_subject, of_resource = header.subject_filter or "", header.resource_filter or ""
        found: list[SubjectPolicies] = []
        for policies in self._administration.table.policies():
            text = policies.subject.text
            if of_subject not in text:
                continue
            # as in RocketMQ, the second filter does not count where the subject contains it
            chosen = policies if of_resource in text else _about(policies, of_resource)
            if _has_entries(chosen):
                found.append(chosen)
        found.sort(key=lambda policies: policies.subject.name)
        body = write_acls(found) if found else b""
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)


def _subject(header: SubjectHeader) -> Subject:
    try:
        return Subject.parse(header.subject)
    except MalformedSubject as error:
        raise no_permission("The subject type is null.") from error


def _has_entries(policies: SubjectPolicies) -> bool:
    return bool(policies.custom or policies.default)


def _about(policies: SubjectPolicies, text: str) -> SubjectPolicies:
    """Return the entries whose resource contains a text."""

    def chosen(entries: tuple[PolicyEntry, ...]) -> tuple[PolicyEntry, ...]:
        return tuple(entry for entry in entries if text in entry.resource.text)

    return SubjectPolicies(policies.subject, chosen(policies.custom), chosen(policies.default))
