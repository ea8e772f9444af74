"""Tests against a real vLLM server. `make test` does not collect them (no file here is named test_*): they need
packaging/vllm.sh, 4 GB of memory and minutes. `make test-vllm` runs live_vllm.py."""
