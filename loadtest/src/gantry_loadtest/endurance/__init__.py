"""What an endurance run makes of its samples: what is flat, and a page of it. Pure."""
