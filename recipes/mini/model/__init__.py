"""DeepSeek-V4.1's architecture at a small size, with DSpark, in its training form."""
