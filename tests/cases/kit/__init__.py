"""Socket-level kit of the fault tests: fake engines, a raw client, and the router as a subprocess."""
