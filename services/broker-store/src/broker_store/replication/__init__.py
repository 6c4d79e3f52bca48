"""How a broker survives the loss of its machine: the rules, pure, and the register of its leader. No store uses them yet."""
