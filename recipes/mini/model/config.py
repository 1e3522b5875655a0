"""Sizes of the model. Names follow the engine; `release/config.py` gives those of config.json."""

from dataclasses import dataclass

BEGIN_ID, END_ID, PAD_ID = 0, 1, 2

# Control tokens close the vocabulary, in this order.
TAIL_TOKENS = (
    "<｜System｜>",
    "<｜latest_reminder｜>",
    "<｜action｜>",
    "<｜query｜>",
    "<｜authority｜>",
    "<｜domain｜>",
    "<｜title｜>",
    "<｜read_url｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜deepseek_image｜>",
    "<｜reserved_0｜>",
    "<｜reserved_1｜>",
)


@dataclass(frozen=True)
class Config:
    """Sizes of the backbone, its Engram tables, its indexer and its drafter."""

    vocab: int = 8192
    hidden: int = 384
    layers: int = 10
    heads: int = 8
    head_dim: int = 128
    rope_dims: int = 32
    q_rank: int = 192
    o_rank: int = 64
    o_groups: int = 4
    inner: int = 192
    experts: int = 16
    top_k: int = 4
    route_scale: float = 1.5
    swiglu_limit: float = 10.0
    window: int = 128
    ratios: tuple[int, ...] = (0, 0, 2, 2, 2, 2, 1, 1, 1, 1)
    kv_sources: tuple[int, ...] = (2, 4, 6)
    norm_eps: float = 1e-20
    max_context: int = 4096

    streams: int = 4
    sinkhorn_iters: int = 20
    hc_eps: float = 1e-6

    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    yarn_factor: float = 16.0
    yarn_original: int = 65536
    yarn_beta_fast: int = 32
    yarn_beta_slow: int = 1

    engram_layers: tuple[int, ...] = (1, 4)
    engram_ngram: int = 4
    engram_heads: int = 4
    engram_width: int = 32
    engram_buckets: int = 4096

    index_sources: tuple[int, ...] = (2, 4, 6, 8)
    index_heads: int = 8
    index_dim: int = 64
    index_top_k: int = 256
    candidate_source: int = 6
    candidate_blocks: int = 64
    candidate_block: int = 8

    draft_blocks: int = 3
    draft_block: int = 5
    draft_taps: tuple[int, ...] = (7, 8, 9)
    draft_rank: int = 64
    draft_experts: int = 8
    draft_top_k: int = 2

    @property
    def mixes(self) -> int:
        """Hyper-connection mixes a row: two for each stream, and a matrix of streams."""
        return 2 * self.streams + self.streams * self.streams

    @property
    def engram_columns(self) -> int:
        """Table rows read for each token."""
        return (self.engram_ngram - 1) * self.engram_heads

    def control_id(self, token: str) -> int:
        """Return the id of a control token of `TAIL_TOKENS`."""
        return self.vocab - len(TAIL_TOKENS) + TAIL_TOKENS.index(token)

    @property
    def noise_id(self) -> int:
        """Token that stands for the positions a drafter block has yet to predict."""
        return self.control_id("<｜System｜>")


MINI = Config()

# A far smaller model of the same kind, for checks that take seconds.
SMOKE = Config(
    vocab=512,
    hidden=128,
    layers=4,
    heads=4,
    head_dim=64,
    rope_dims=32,
    q_rank=64,
    o_rank=32,
    o_groups=2,
    inner=64,
    experts=4,
    top_k=2,
    window=32,
    ratios=(0, 2, 1, 1),
    kv_sources=(1, 2),
    max_context=1024,
    engram_layers=(1,),
    engram_heads=2,
    engram_buckets=256,
    index_sources=(1, 2, 3),
    index_heads=2,
    index_dim=64,
    index_top_k=64,
    candidate_source=2,
    candidate_blocks=32,
    candidate_block=4,
    draft_blocks=2,
    draft_taps=(2, 3),
    draft_rank=32,
    draft_experts=4,
)
