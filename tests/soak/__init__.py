"""Minutes of mixed load, leaving clients, dying engines and reloads; then everything must be at zero."""
