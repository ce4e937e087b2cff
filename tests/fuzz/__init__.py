"""Random and half-right input on the data port."""
