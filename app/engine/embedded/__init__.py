"""llama.cpp in a child process of ours."""
