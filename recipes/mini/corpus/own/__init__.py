"""Text written for this project: hand-written facts and tasks with checkable answers."""
