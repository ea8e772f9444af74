"""The vocabulary: what an episode, a request, a step, a trajectory and a pair are; and how two of them compare."""
