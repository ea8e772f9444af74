"""Whatever else speaks /v1/completions."""
