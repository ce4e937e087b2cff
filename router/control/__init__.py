"""Looking after the engines: probes of their health, readings of their load."""
