"""Forkpoint: same request, different answer; where, why, and can I show it?"""

__version__ = "0.1.0"
