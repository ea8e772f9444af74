"""vLLM: a cache_salt is a State."""
