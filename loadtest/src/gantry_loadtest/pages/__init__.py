"""A run as a page with charts. Rendering is pure."""
