"""WHAT LEAVES THE MACHINE: bundles, one zip each that a maintainer can open, check and replay."""
