"""Text of other people, one module a kind of source; each function names source and licence."""
