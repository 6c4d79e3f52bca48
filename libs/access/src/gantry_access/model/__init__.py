"""Users, subjects, resources, actions, source networks and policies, as values that never change."""
