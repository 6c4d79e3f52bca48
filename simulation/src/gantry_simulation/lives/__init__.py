"""Drawn lives of a whole system: what happens, who does it, what must hold afterwards, and how a failing life becomes small."""
