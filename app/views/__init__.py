"""WHAT YOU SEE: PySide6 and pyqtgraph only."""
