"""Users, their policies and tokens: shown, changed, explained."""
