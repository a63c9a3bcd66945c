"""One stream: what engines hold of it, the front of the line, the brake. Its tasks' buttons are in task/acts."""
