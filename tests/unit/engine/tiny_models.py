"""Models of a few kilobytes with random weights: real llama.cpp memory behaviour, no sense in their words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

N_VOCAB = 300
WIDTH, HEADS, HEAD, LAYERS, FEED_FORWARD = 64, 2, 32, 6, 128
WINDOW = 32


def write_sliding_window_model(path: Path, chat_template: str | None = None) -> Path:
    """A Gemma 3 of six layers, five of which see WINDOW tokens."""
    writer = _writer(path, "gemma3")
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_sliding_window(WINDOW)
    writer.add_rope_freq_base(10000.0)
    random = _Random(writer)
    for layer in range(LAYERS):
        for name, shape in {
            "attn_q": (HEADS * HEAD, WIDTH),
            "attn_k": (HEAD, WIDTH),
            "attn_v": (HEAD, WIDTH),
            "attn_output": (WIDTH, HEADS * HEAD),
            "ffn_gate": (FEED_FORWARD, WIDTH),
            "ffn_up": (FEED_FORWARD, WIDTH),
            "ffn_down": (WIDTH, FEED_FORWARD),
        }.items():
            random.weight(f"blk.{layer}.{name}.weight", *shape)
        for name, size in {
            "attn_norm": WIDTH,
            "post_attention_norm": WIDTH,
            "ffn_norm": WIDTH,
            "post_ffw_norm": WIDTH,
            "attn_q_norm": HEAD,
            "attn_k_norm": HEAD,
        }.items():
            random.norm(f"blk.{layer}.{name}.weight", size)
    return _finish(writer, path)


def write_recurrent_model(path: Path) -> Path:
    """A Mamba of six layers, whose memory is one state that cannot go back."""
    inner, conv, state, rank = 2 * WIDTH, 4, 16, 4
    writer = _writer(path, "mamba")
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(conv)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    random = _Random(writer)
    for layer in range(LAYERS):
        random.norm(f"blk.{layer}.attn_norm.weight", WIDTH)
        for name, shape in {
            "ssm_in.weight": (2 * inner, WIDTH),
            "ssm_conv1d.weight": (inner, conv),
            "ssm_conv1d.bias": (inner,),
            "ssm_x.weight": (rank + 2 * state, inner),
            "ssm_dt.weight": (inner, rank),
            "ssm_dt.bias": (inner,),
            "ssm_out.weight": (WIDTH, inner),
        }.items():
            random.weight(f"blk.{layer}.{name}", *shape)
        writer.add_tensor(f"blk.{layer}.ssm_a", -np.ones((inner, state), np.float32))
        writer.add_tensor(f"blk.{layer}.ssm_d", np.ones(inner, np.float32))
    return _finish(writer, path)


class _Random:
    def __init__(self, writer: GGUFWriter) -> None:
        self._writer = writer
        self._numbers = np.random.default_rng(3)
        self.weight("token_embd.weight", N_VOCAB, WIDTH)
        self.norm("output_norm.weight", WIDTH)

    def weight(self, name: str, *shape: int) -> None:
        self._writer.add_tensor(name, self._numbers.normal(0, 0.3, shape).astype(np.float32))

    def norm(self, name: str, size: int) -> None:
        self._writer.add_tensor(name, np.ones(size, np.float32))


def _writer(path: Path, architecture: str) -> GGUFWriter:
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(1024)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(GGMLQuantizationType.F32)
    writer.add_tokenizer_model("llama")
    letters = [f"▁{number}" for number in range(N_VOCAB - 259)]
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters])
    writer.add_token_scores([0.0] * N_VOCAB)
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * len(letters)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    return writer


def _finish(writer: GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
