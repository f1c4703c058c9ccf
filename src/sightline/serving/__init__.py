"""The HTTP server: `http` (the protocol and its guards), `scheduling` (one thread for all models), `api`."""
