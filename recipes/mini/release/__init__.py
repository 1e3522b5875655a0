"""The release layout: names, types and packing of DeepSeek-V4.1's published checkpoints."""
