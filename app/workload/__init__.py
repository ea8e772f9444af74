"""WHAT IS ASKED: episodes, their tools, chat rendering, importers."""
