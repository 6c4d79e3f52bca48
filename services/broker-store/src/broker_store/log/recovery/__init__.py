"""Opens a log after any kind of end: checks its content, finds its end, and continues after damage only with a proof."""
