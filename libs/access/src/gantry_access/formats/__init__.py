"""Users and policies as bytes and as other systems write them: RocketMQ's admin bodies, stored records, plain_acl.yml of 4.9."""
