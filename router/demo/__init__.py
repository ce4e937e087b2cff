"""The main job in one terminal: two simulated engines, the router, and a load that rises and falls."""
