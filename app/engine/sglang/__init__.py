"""SGLang by its documentation; not run against a live server."""
