"""HTTP to one server."""
