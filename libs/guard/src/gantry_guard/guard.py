"""Everything that a process with access control has once: its keys, table of users, limits of failures, audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gantry_access.entries.table import AccessTable
from gantry_access.rights.http_table import OWN_PORTS, HttpRoute
from gantry_access.rights.rules import Row
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Environment
from gantry_chassis.metrics import Metrics
from gantry_chassis.settings.access import AccessSettings
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.audit import Audit
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.door import Door, TopicOfRecord
from gantry_guard.failures import FailureLimits
from gantry_guard.following import AccessFollower
from gantry_guard.grpc_door import GrpcDoor
from gantry_guard.http_callers import Callers, JwtCheck
from gantry_guard.http_door import HttpDoor
from gantry_guard.inner_door import InnerDoor
from gantry_guard.inner_http import InnerHttp
from gantry_guard.introduction import INNER, Introducer, Introductions
from gantry_guard.refusals import Refusals
from gantry_guard.validators import load_validators
from gantry_link.connections.pool import ConnectionPool
from gantry_link.serving.peer import Peer

_log = get_logger()


@dataclass(frozen=True, slots=True)
class Guard:
    """Access control of one process. Make it with `opening.open_guard`."""

    keys: ClusterKeys
    table: AccessTable
    introductions: Introductions
    """Answers the introductions of others."""
    introducer: Introducer
    """Introduces this process: give it to each ConnectionPool."""
    failures: FailureLimits
    audit: Audit
    refusals: Refusals
    """What becomes of refused requests: it knows the mode of the process."""
    certificates: CertificateUsers
    """Finds the users of connections with a verified client certificate."""
    now_ms: Callable[[], int]
    """Wall time."""

    @classmethod
    def of(cls, settings: AccessSettings, service: str, metrics: Metrics, environment: Environment) -> Guard:
        """Return the access control of a process. Raises StartRefused."""
        keys = ClusterKeys.read(settings.access_key_file)
        validators = load_validators(settings.access_validators, metrics, environment.steady)
        try:
            audit = Audit.of(settings.access_audit_file, service, metrics, environment)
        except OSError as error:
            raise StartRefused(
                f"cannot write the audit log {settings.access_audit_file}: {error.strerror}; set access_audit_file"
            ) from error
        if settings.is_permissive:
            _log.warning(
                "access_mode=permissive: what access control would refuse is noted and handled as if it were off"
            )
        table = AccessTable(keys.sealing)
        metrics.gauge(
            "access_enforced", "0 while access_mode is permissive.", lambda: float(settings.is_enforced)
        )
        metrics.gauge("access_users", "Users known.", lambda: len(table.state))
        metrics.gauge(
            "access_complete", "1 once the users of a store were read.", lambda: float(table.is_complete)
        )
        return cls(
            keys=keys,
            table=table,
            introductions=Introductions(keys.inner, environment.secret_bytes, settings.further_addresses),
            introducer=Introducer(
                keys.inner, service, environment.secret_bytes, is_permissive=settings.is_permissive
            ),
            failures=FailureLimits(environment.steady),
            audit=audit,
            refusals=Refusals(audit, validators, is_permissive=settings.is_permissive),
            certificates=CertificateUsers(table, is_on=settings.tls_users),
            now_ms=environment.wall_ms,
        )

    @property
    def is_ready(self) -> bool:
        """Whether requests of users can be handled: their users were read, or need not be known."""
        return self.table.is_complete or self.refusals.is_permissive

    @staticmethod
    def is_inner(peer: Peer) -> bool:
        """Whether a peer introduced itself as one of Gantry's own services."""
        return INNER in peer.attributes

    def door(self, cluster: str, topic_of_record: TopicOfRecord | None = None) -> Door:
        """Return the door of a port for clients."""
        return Door(
            self.table,
            self.introductions,
            cluster,
            failures=self.failures,
            refusals=self.refusals,
            certificates=self.certificates,
            now_ms=self.now_ms,
            topic_of_record=topic_of_record,
        )

    def inner_door(self) -> InnerDoor:
        """Return the door of a port for Gantry's own services alone."""
        return InnerDoor(self.introductions, self.refusals)

    def http_door(
        self,
        rows: Mapping[HttpRoute, Row],
        cluster: str,
        jwt: JwtCheck | None = None,
        *,
        needs_token_when_off: bool = False,
    ) -> HttpDoor:
        """Return the door of an HTTP port whose routes have these rows of rights. Without `jwt`, no JWT is accepted.

        `needs_token_when_off`: whether the port asks for a token without access control.
        """
        callers = Callers(self.table, self.failures, self.now_ms, jwt, self.certificates)
        return HttpDoor(
            rows,
            self.table,
            cluster,
            callers,
            self.inner_http(),
            self.refusals,
            self.now_ms,
            needs_token_when_off=needs_token_when_off,
        )

    def grpc_door(
        self, cluster: str, jwt: JwtCheck | None = None, *, needs_token_when_off: bool = False
    ) -> GrpcDoor:
        """Return the door of a gRPC port, as `http_door` with rows for gRPC's methods."""
        http = self.http_door({}, cluster, jwt, needs_token_when_off=needs_token_when_off)
        return GrpcDoor(http, self.table, self.failures, self.now_ms)

    def own_port_door(self, service: str, cluster: str) -> HttpDoor:
        """Return the door of a service's own HTTP port: health, metrics, snapshots."""
        return self.http_door(OWN_PORTS[service], cluster)

    def inner_http(self) -> InnerHttp:
        """Return what makes and checks the headers of inner HTTP requests."""
        return InnerHttp(self.keys.inner, self.now_ms)

    def follower(
        self, stores: Callable[[], Iterable[str]], pool: ConnectionPool, metrics: Metrics
    ) -> AccessFollower:
        """Return what keeps the table up to date with these stores."""
        follower = AccessFollower(self.table, stores, pool, self.introducer.is_introduced)
        metrics.gauge(
            "access_stores_followed",
            "Stores whose changes of users are read.",
            lambda: len(follower.following),
        )
        metrics.counted(
            "access_entries_unreadable",
            "Entries of access control that were left out.",
            lambda: follower.unreadable,
        )
        return follower
