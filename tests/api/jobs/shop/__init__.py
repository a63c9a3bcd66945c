"""An app of an installation's own, with a pipeline."""
