"""llama-server: one that runs elsewhere, and one that Forkpoint starts."""
