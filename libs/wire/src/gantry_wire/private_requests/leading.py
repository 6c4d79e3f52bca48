"""What a replica says when another one leads, or when it leads without a lease: `gantryCode` of refusals. See docs/protocol.md, "Fields of Gantry"."""

NOT_LEADER = "NOT_LEADER"
"""With code 14: this replica does not lead. Nothing was stored or carried out."""
LEADER_FIELD = "leader"
"""Field of a NOT_LEADER refusal: host:port of the replica that leads, if it is known."""
NO_LEASE = "NO_LEASE"
"""With code 2: this leader may not grant claims, queue locks and leases of messages now. Ask again later."""
