"""The training text: what is collected, from where and under which licence."""
