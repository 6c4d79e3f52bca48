"""What a profile works with: the state of a run, readers, shapes, schedules. No Locust."""
