"""Which of a broker's addresses a consumer is to pull from next: the `suggestWhichBrokerId` of a pull's answer, by RocketMQ's rule.

It applies where slaves may be read (slaveReadEnable). Without that, every answer names the master.
"""

from collections.abc import Sequence

from gantry_wire.bodies.cluster import SubscriptionGroupConfig

MASTER_ID = 0
SLOW_READERS_ID = 1
"""Where a reader without a group reads old messages: RocketMQ's default of whichBrokerWhenConsumeSlowly."""


def suggested_broker(
    group: SubscriptionGroupConfig | None, slaves: Sequence[int], *, is_far_behind: bool
) -> int:
    """Return a broker id: a consumer of old messages goes where its group says, every other one to the group's own broker.

    RocketMQ's master suggests an id even if no slave has it, and clients then read from the master. Followers have the ids of their names, so
    that 1 may be the leader's own: the next higher id of `slaves` is meant then, else the lowest; without a slave, the master.
    `group`: None for a reader without a group.
    """
    if is_far_behind:
        wanted = SLOW_READERS_ID if group is None else group.which_broker_when_consume_slowly
    else:
        wanted = MASTER_ID if group is None else group.broker_id
    if wanted == MASTER_ID or wanted in slaves:
        return wanted
    higher = [number for number in slaves if number > wanted]
    return min(higher or slaves, default=MASTER_ID)
