"""Do both engines give the same greedy answers? If so, a switch between them changes no text."""
