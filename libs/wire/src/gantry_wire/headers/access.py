"""Typed headers of the requests about users and policies: 3001 to 3010 of RocketMQ 5, 50 to 53 of RocketMQ 4.9.

Fields that RocketMQ requires are optional here where a blank one has a refusal of its own.
"""

from __future__ import annotations

from gantry_wire.headers.typed_header import Header


class UserHeader(Header, kw_only=True, rename="camel", gc=False):
    """3001 to 3004: one user."""

    username: str = ""


class UserFilterHeader(Header, kw_only=True, rename="camel", gc=False):
    """3005: users whose name contains a text."""

    filter: str | None = None


class SubjectHeader(Header, kw_only=True, rename="camel", gc=False):
    """3006, 3007, 3009: the policies of one subject (`User:name`)."""

    subject: str = ""


class DeleteAclHeader(SubjectHeader, kw_only=True, rename="camel", gc=False):
    """3008: without a resource, all policies of the subject."""

    policy_type: str | None = None
    resource: str | None = None


class AclFilterHeader(Header, kw_only=True, rename="camel", gc=False):
    """3010: policies whose subject and resource contain these texts."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class PlainAccessHeader(Header, kw_only=True, rename="camel", gc=False):
    """50: one account of ACL 1.0. Lists are joined by commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: str | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class AccessKeyHeader(Header, kw_only=True, rename="camel", gc=False):
    """51: delete an account."""

    access_key: str


class AclVersionReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 52. Versions are DataVersion as JSON."""

    version: str
    all_acl_file_version: str
    broker_name: str
    broker_addr: str
    cluster_name: str


class GlobalWhiteAddressesHeader(Header, kw_only=True, rename="camel", gc=False):
    """53: addresses whose clients needed no signature."""

    global_white_addrs: str
    acl_file_full_path: str | None = None
