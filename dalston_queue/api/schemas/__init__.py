"""What routes take and answer, a module per noun, in and out together. `base` has what the others share."""
