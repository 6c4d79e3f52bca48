"""Files on the real disk and on a simulated one that can crash, behind one interface. Knows no format."""
