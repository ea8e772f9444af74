"""WHERE TOKENS COME FROM: engines behind one contract, whose cache state is an object."""
